"""`sublet console`: its arguments, and the extra that it needs."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

import pytest
from sublet.errors import HandlerNotLoadable, SettingsError
from sublet.operate.cli import console
from sublet.operate.cli.main import main

TOKEN = "twenty-characters-long"


def test_console_without_its_extra_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "EXTRA", ("starlette", "no_such_package"))
    assert main(["console"]) == 2
    assert capsys.readouterr().err == (
        "sublet: the console needs no_such_package, which is not installed: install sublet with its extra operate\n"
    )


@pytest.mark.parametrize("address", ["0.0.0.0", "192.0.2.7", "::", "example.com"])  # noqa: S104 - none is bound
def test_another_address_needs_a_token(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["console", "--address", address]) == 2
    assert "an address of this machine, such as 127.0.0.1; any other needs --token" in capsys.readouterr().err


@pytest.mark.parametrize("port", ["-5", "65536", "many", "", "٨٠٨٠"])
def test_a_port_that_no_machine_has_is_refused(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["console", f"--port={port}"])
    assert f"argument --port: '{port}' is not a port, 0 to 65535" in capsys.readouterr().err


def test_a_token_may_be_in_a_file_where_no_process_list_shows_it(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    assert console.token_of(f"@{tmp_path}/token") == TOKEN
    assert console.token_of(TOKEN) == TOKEN
    assert console.token_of(None) is None


def test_a_short_token_is_refused_and_not_shown() -> None:
    with pytest.raises(SettingsError, match="at least 20 characters") as refused:
        console.token_of("hunter2")
    assert "hunter2" not in str(refused.value)


def test_a_token_s_file_that_is_not_there_is_named() -> None:
    with pytest.raises(SettingsError, match="@/nowhere/token"):
        console.token_of("@/nowhere/token")


def test_a_handler_is_one_application_s_and_loaded_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "console_handler.py").write_text("def handle(batch): pass\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])

    def given(handler: str | None) -> Namespace:
        return Namespace(handler=handler, handler_contract=None)

    assert console.redriver_of(given(None), {}) is None
    assert console.redriver_of(given("console_handler:handle"), {"orders": "events"}) is not None
    with pytest.raises(HandlerNotLoadable, match="no_such_module"):
        console.redriver_of(given("no_such_module:handle"), {"orders": "events"})
    for named in ({}, {"orders": "events", "billing": None}):
        with pytest.raises(SettingsError, match="allowed only with one named application"):
            console.redriver_of(given("console_handler:handle"), named)


def test_applications_are_named_with_or_without_their_stream() -> None:
    assert console.named(["orders=events", "billing"]) == {"orders": "events", "billing": None}
