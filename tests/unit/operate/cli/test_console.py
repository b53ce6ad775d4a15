"""`sublet console`: its arguments, and the extra that it needs."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

import pytest
from sublet.errors import HandlerNotLoadable, SettingsError
from sublet.operate.cli import console
from sublet.operate.cli.console_proxy import proxy_of
from sublet.operate.cli.main import main
from sublet.operate.console.trusted_proxy import TrustedProxy, networks_of

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


SECRET = "a-secret-of-more-than-twenty-characters"


def proxy_given(*words: str) -> TrustedProxy | None:
    parser = ArgumentParser()
    console.add_arguments(parser)
    return proxy_of(parser.parse_args(words))


@pytest.fixture
def secret_file(tmp_path: Path) -> str:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    return str(tmp_path / "secret")


def test_proxy_is_trusted_on_this_machine_by_default(secret_file: str) -> None:
    assert proxy_given() is None
    words = ("--trust-header", "X-Forwarded-Email", "--proxy-secret-file", secret_file)
    assert proxy_given(*words) == TrustedProxy("X-Forwarded-Email", networks_of(["127.0.0.1/32", "::1/128"]), SECRET)
    moves = ("--allow-changes", "--may-move", "ada", "--may-move", "bob", "--groups-header", "X-Groups")
    found = proxy_given(*words, *moves, "--may-move-group", "ops", "--trusted-proxy", "10.0.0.0/8")
    assert found == TrustedProxy(
        "X-Forwarded-Email",
        networks_of(["10.0.0.0/8"]),
        SECRET,
        frozenset({"ada", "bob"}),
        "X-Groups",
        frozenset({"ops"}),
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--may-move", "ada"], "only allowed with --trust-header"),
        (["--proxy-secret-file", "x"], "only allowed with --trust-header"),
        (["--trust-header", "X-Name"], "without it, anybody could write the header"),
        (["--trust-header", "X-Name", "--token", "t" * 30], "a person who signs in with it has no name"),
        (["--trust-header", "X Name"], "a header's name"),
        (["--trust-header", "X-Name", "--trusted-proxy", "10.0.0.7/8"], "addresses or networks such as"),
        (["--trust-header", "X-Name", "--allow-changes"], "required to name who may"),
        (["--trust-header", "X-Name", "--may-move", "ada"], "this console is read-only"),
        (
            ["--trust-header", "X-Name", "--allow-changes", "--may-move-group", "ops"],
            "only allowed with --groups-header",
        ),
        (["--trust-header", "X-Name", "--proxy-secret-file", "no-such-file"], "a file that can be read"),
    ],
)
def test_options_of_a_proxy_that_would_let_anybody_in_are_refused(words: list[str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        proxy_given(*words)


@pytest.mark.parametrize("secret", ["hunter2", "a secret with spaces in it", "ein-Geheimnis-mit-Umlauten-äöü"])
def test_secret_that_is_short_or_cannot_be_a_header_is_refused_without_itself(tmp_path: Path, secret: str) -> None:
    (tmp_path / "file").write_text(secret)
    with pytest.raises(SettingsError, match="at least 20 ASCII characters") as refused:
        proxy_given("--trust-header", "X-Name", "--proxy-secret-file", str(tmp_path / "file"))
    assert secret not in str(refused.value)
