"""`sublet leases`: a line for each lease."""

from __future__ import annotations

import pytest
from sublet.cli.leases import distribution_lines, lease_lines
from sublet.cli.main import main
from sublet.decisions.work_distribution import GroupLoad, WorkDistribution, WorkerLoad
from sublet.protocol.checkpoint import SHARD_END, TRIM_HORIZON
from sublet.protocol.lease import Lease, LeaseScan, MalformedRow


def test_every_lease_has_a_line_and_malformed_rows_come_last() -> None:
    scan = LeaseScan(
        (Lease("shardId-1", SHARD_END, 9), Lease("shardId-0", TRIM_HORIZON, 4, "orders-lambda-0")),
        (MalformedRow("shardId-2", "attribute leaseCounter is missing"),),
    )
    lines = [line.split() for line in lease_lines(scan)]
    assert lines == [
        ["lease", "owner", "counter", "checkpoint"],
        ["shardId-0", "orders-lambda-0", "4", "TRIM_HORIZON"],
        ["shardId-1", "-", "9", "SHARD_END"],
        ["shardId-2", "MALFORMED:", "attribute", "leaseCounter", "is", "missing"],
    ]


def test_nothing_of_a_row_reaches_the_terminal_as_a_command() -> None:
    scan = LeaseScan(
        (Lease("shard\x1b[2J", TRIM_HORIZON, 1, "own\ner"),), (MalformedRow("row\x1b[2J", "is\x1b[2J"),)
    )
    assert all(line.isprintable() for line in lease_lines(scan))


def test_who_has_how_much_by_group_by_worker_and_in_all() -> None:
    of = WorkDistribution(
        (GroupLoad("zone-a", 2, 1_000, 1_000.5, 7.25), GroupLoad("zone-b", 1, 1, 0.5, None)),
        (WorkerLoad("zone-a:1", "zone-a", 1_000, 7.25),),
        target=334,
        unowned=3,
        expired=2,
        moved=1,
    )
    assert [" ".join(line.split()) for line in distribution_lines(of)] == [
        "group workers leases share KB/s",
        "zone-a 2 1000 1000.5 7.2",
        "zone-b 1 1 0.5 -",
        "",
        "worker leases KB/s",
        "zone-a:1 1000 7.2",
        "",
        "target: 334 leases a worker; 3 unowned, 2 expired, 1 moved in the last hour",
    ]


def test_without_a_live_owner_there_is_one_line() -> None:
    (line,) = distribution_lines(WorkDistribution((), (), 0, 4, 0, 0))
    assert line.startswith("target: 0 leases a worker; 4 unowned")


def test_it_asks_for_the_application(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SUBLET_APPLICATION", raising=False)
    assert main(["leases"]) == 2
    assert capsys.readouterr().err == (
        "sublet: setting application = None: required; give --application, or set SUBLET_APPLICATION\n"
    )
    assert main(["leases", "--application", "a b"]) == 2
    assert "3 to 200 of" in capsys.readouterr().err
