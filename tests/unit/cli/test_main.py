"""`python -m sublet`: which settings it ends up with, what it shows, and one sentence when something is wrong."""

from __future__ import annotations

import socket
from datetime import timedelta

import pytest
from sublet.cli import main as command_line
from sublet.errors import SettingsError
from sublet.protocol.checkpoint import SHARD_END, TRIM_HORIZON
from sublet.protocol.lease import Lease, LeaseScan, MalformedRow
from sublet.settings import Mode, Settings

NAMED = ("--application", "orders", "--stream", "events")


def settings(*arguments: str, **environment: str) -> Settings:
    return command_line.settings_of(command_line.parser().parse_args(["run", *arguments]), environment)


def test_a_process_is_continuous_and_a_worker_of_its_own() -> None:
    given = settings(*NAMED)
    assert given.mode is Mode.CONTINUOUS
    assert given.worker_id == f"orders-{socket.gethostname()}"


def test_options_go_before_the_environment_and_that_before_the_defaults() -> None:
    options = ("--application", "orders", "--handler", "orders:handle", "--set", "failover_time=60s")
    given = settings(
        *options, SUBLET_APPLICATION="audit", SUBLET_STREAM="events", SUBLET_MODE="catch_up", HOME="/"
    )
    assert (given.application, given.stream, given.handler) == ("orders", "events", "orders:handle")
    assert given.mode is Mode.CATCH_UP
    assert given.failover_time == timedelta(minutes=1)


@pytest.mark.parametrize("wrong", ["failover=60s", "failover_time", "failover_time=60"])
def test_a_wrong_setting_is_refused_by_its_name(wrong: str) -> None:
    with pytest.raises(SettingsError, match=r"(?i)failover"):
        settings(*NAMED, "--set", wrong)


def test_what_is_wrong_is_one_sentence_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SUBLET_STREAM", raising=False)
    assert command_line.main(["run", "--application", "orders"]) == 2
    assert capsys.readouterr().err == "sublet: setting stream = None: required; set SUBLET_STREAM\n"


def test_without_a_command_it_says_how_it_is_called(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        command_line.main([])
    assert refused.value.code == 2
    assert "usage: python -m sublet" in capsys.readouterr().err


def test_every_lease_has_a_line_and_malformed_rows_come_last() -> None:
    scan = LeaseScan(
        (Lease("shardId-1", SHARD_END, 9), Lease("shardId-0", TRIM_HORIZON, 4, "orders-lambda-0")),
        (MalformedRow("shardId-2", "attribute leaseCounter is missing"),),
    )
    lines = [line.split() for line in command_line.lease_lines(scan).splitlines()]
    assert lines == [
        ["lease", "owner", "counter", "checkpoint"],
        ["shardId-0", "orders-lambda-0", "4", "TRIM_HORIZON"],
        ["shardId-1", "-", "9", "SHARD_END"],
        ["shardId-2", "MALFORMED:", "attribute", "leaseCounter", "is", "missing"],
    ]
