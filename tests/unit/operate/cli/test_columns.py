"""Columns of long names: as wide as the names in a pipe, and as the terminal allows in a terminal."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable
from datetime import timedelta
from io import StringIO

import pytest
from sublet.decisions.status.shard_status import ShardState
from sublet.decisions.status.status_rules import Status, StatusReason
from sublet.operate.cli.monitor.applications import lines_of as application_lines
from sublet.operate.cli.monitor.leases import lease_lines
from sublet.operate.cli.monitor.shards import tree_lines
from sublet.operate.cli.monitor.status import text_of
from sublet.operate.cli.monitor.workers import distribution_lines
from sublet.operate.formatting import shortened
from sublet.operate.rules.application_status import ApplicationStatus
from sublet.operate.rules.shard_tree import shard_tree
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease import Lease, LeaseScan

from tests.doubles.fleet import NOW, fleet_of, shard_status

COLUMNS = 160
LONG = f"ip-10-0-0-1.{'sub.' * 60}example.com:5f0c2d1e-worker"
STATUS = fleet_of(
    shard_status(0, Status.OK, StatusReason.NOTHING_WAITS, lag=timedelta(0), owner=LONG, group=LONG),
    shard_status(1, Status.OK, StatusReason.NOTHING_WAITS, owner=LONG, group=LONG, state=ShardState.EXPIRED),
    shard_status(2, Status.OK, StatusReason.NOTHING_WAITS, owner="short", group="short"),
)
ALL = Namespace(json=False, watch=False, unhealthy=False, behind=None, owner=None)


def status_lines() -> list[str]:
    return text_of(STATUS, ALL, "orders-audit").splitlines()[1:]


def tables() -> dict[str, Callable[[], Iterable[str]]]:
    leases = (Lease("shard-1", Checkpoint("5"), 7, LONG), Lease("shard-2", Checkpoint("5"), 7, "short"))
    return {
        "status": status_lines,
        "shards": lambda: tree_lines(shard_tree(STATUS.shards)),
        "workers": lambda: list(distribution_lines(STATUS.distribution, NOW))[:-2],
        "applications": lambda: application_lines([ApplicationStatus(name, STATUS) for name in (LONG, "short")]),
        "leases": lambda: lease_lines(LeaseScan(leases)),
    }


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    monkeypatch.setattr("sys.stdout", Terminal())


@pytest.mark.parametrize("table", tables())
def test_a_long_name_is_shortened_in_its_middle_to_the_width_of_the_terminal(
    table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_a_terminal(monkeypatch)
    lines = list(tables()[table]())
    assert all(len(line) <= COLUMNS for line in lines)
    assert any("..." in line for line in lines)
    assert any(LONG[:8] in line and LONG[-7:] in line for line in lines)


@pytest.mark.parametrize("table", tables())
def test_names_are_not_cut_in_a_pipe_and_columns_align(table: str) -> None:
    """In `status` and `shards`, the reason follows the owner."""
    lines = list(tables()[table]())
    assert any(LONG in line for line in lines)
    assert not any("..." in line for line in lines)
    if table in ("status", "shards"):
        assert len({line.index(StatusReason.NOTHING_WAITS) for line in lines if "nothing waits" in line}) == 1


def test_gone_mark_of_an_owner_is_not_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    in_a_terminal(monkeypatch)
    assert sum(" (gone) " in line for line in status_lines()) == 1


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("a-worker", 8, "a-worker"),
        ("worker-of-a-host:17", 12, "work...st:17"),
        ("worker-of-a-host:17", 11, "work...t:17"),
        ("worker", 1, "w...r"),
    ],
)
def test_a_name_keeps_its_beginning_and_its_end(text: str, width: int, shown: str) -> None:
    assert shortened(text, width) == shown
