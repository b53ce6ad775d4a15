"""`sublet leases`: a line for each lease."""

from __future__ import annotations

import pytest
from sublet.operate.cli.main import main
from sublet.operate.cli.monitor.leases import lease_lines
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


def test_leases_escapes_control_characters_of_a_row() -> None:
    scan = LeaseScan((Lease("shard\x1b[2J", TRIM_HORIZON, 1, "own\ner"),), (MalformedRow("row\x1b[2J", "is\x1b[2J"),))
    assert all(line.isprintable() for line in lease_lines(scan))


def test_leases_requires_the_application(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUBLET_APPLICATION", raising=False)
    assert main(["leases"]) == 2
    assert capsys.readouterr().err == (
        "sublet: setting application is required; give --application, or set SUBLET_APPLICATION\n"
    )
    assert main(["leases", "--application", "a b"]) == 2
    assert "3 to 200 of" in capsys.readouterr().err
