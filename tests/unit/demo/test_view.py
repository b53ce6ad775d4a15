"""The live view and what the watcher tells, from snapshots: no consumer runs here."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from rich.console import Console, RenderableType
from sublet.decisions.status.shard_status import ShardStatus
from sublet.decisions.status.status_rules import Status, StatusReason
from sublet.protocol.shard import HASH_KEY_MAX, HashKeyRange, Shard

from demo.snapshot import Part, Phase, Snapshot
from demo.view import HAPPENINGS_SHOWN, PROGRESS_CELLS, WIDTH, draw, progress_line
from tests.doubles.fleet import fleet_of, shard_status

QUARTER = (HASH_KEY_MAX + 1) // 4


def shard(number: int, quarters: tuple[int, int], *parents: int, is_open: bool = True) -> Shard:
    first, second = [*(f"shardId-{parent:012}" for parent in parents), None, None][:2]
    return Shard(
        f"shardId-{number:012}",
        HashKeyRange(quarters[0] * QUARTER, quarters[1] * QUARTER - 1),
        first,
        second,
        starting_sequence_number=str(number),
        is_open=is_open,
    )


FREE = shard_status(4, Status.WAITING, StatusReason.PARENTS, owner=None)
BUSY = shard_status(0, Status.BEHIND, StatusReason.LAG_NEVER_FELL, lag=timedelta(seconds=90), owner="flights-lambda-0")
SHARDS = (
    shard(0, (0, 1)),
    shard(1, (1, 2)),
    shard(2, (2, 3), is_open=False),
    shard(3, (3, 4), is_open=False),
    shard(4, (2, 4), 2, 3),
)
S0, S1, S2, S3, S4 = (s.shard_id for s in SHARDS)


def snapshot(leases: Mapping[str, ShardStatus], **fields: object) -> Snapshot:
    known = {
        "phase": Phase.FLOW,
        "shards": SHARDS,
        "total": 10_000,
        "put": {S0: 3_000, S4: 500},
        "handled": {S0: 1_000},
    }
    return Snapshot(fleet=fleet_of(*leases.values()), **{**known, **fields})  # type: ignore[arg-type]


def text_of(renderable: RenderableType) -> str:
    console = Console(file=io.StringIO(), width=WIDTH + 10, record=True)
    console.print(renderable)
    return console.export_text()


def test_row_shows_owner_status_and_waiting_records() -> None:
    lines = text_of(draw(snapshot({S0: BUSY}, rates={S0: 432.0}))).splitlines()
    row = next(line for line in lines if "flights-lambda-0" in line)
    for words in ("BEHIND", "90s", "1,000", "432", "2,000"):
        assert words in row
    assert "0:00 · 1 BEHIND; worst lag 90s" in lines[-1]


def test_view_keeps_its_width_and_height() -> None:
    many = tuple(f"0:{n:02}  shard {n} " + "x" * 200 for n in range(HAPPENINGS_SHOWN * 2))
    full = snapshot({S0: BUSY}, put={S0: 10**7, S4: 10**7}, rates={S0: 99_999.0}, happenings=many, total=10**8)
    lines = text_of(draw(full)).splitlines()
    assert {len(line.rstrip()) for line in lines if line.strip()} == {WIDTH}
    assert len(lines) == len(text_of(draw(snapshot({}))).splitlines())


def test_a_terminal_of_eighty_columns_and_twenty_four_lines_is_enough() -> None:
    lines = text_of(draw(snapshot({S0: BUSY, S4: FREE}, rates={S0: 9_999.0}), width=80)).splitlines()
    assert {len(line.rstrip()) for line in lines if line.strip()} == {80}
    assert len(lines) + 2 <= 24  # the demo's stream has two more shards
    row = next(line for line in lines if "flights-lambda-0" in line)
    assert "2,000" in row


def test_view_draws_handled_parts_in_turn_and_tells_sparks_share() -> None:
    parts = (Part("Lambda", 4_000), Part("Spark", 3_000), Part("Lambda", 1_000))
    shared = snapshot(
        {S0: replace(BUSY, owner="flights-spark")}, handled={S0: 8_000}, by_spark={S0: 3_000}, parts=parts
    )
    text = text_of(draw(shared))
    assert "flights-spark" in text
    assert "Lambda 4,000" in text
    assert "Spark 3,000" in text
    bar = next(line for line in text.splitlines() if line.startswith("│  handled "))
    assert bar.count("━") == PROGRESS_CELLS
    assert "(3,000 by Spark)" in progress_line(shared)
    assert "by Spark" not in progress_line(snapshot({S0: BUSY}))
