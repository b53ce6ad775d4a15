"""The live view and what the watcher tells, from snapshots: no consumer runs here."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import replace

from rich.console import Console, RenderableType
from sublet.protocol.shard import HASH_KEY_MAX, HashKeyRange, Shard

from demo.prompts import Prompter
from demo.snapshot import LeaseView, Part, Phase, Snapshot
from demo.view import HAPPENINGS_SHOWN, PROGRESS_CELLS, WIDTH, draw, progress_line
from demo.watch import changes

QUARTER = (HASH_KEY_MAX + 1) // 4
LAST_CHECKPOINT = "49655923345627486310519857136541063432187209412345167874:311"


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


FREE = LeaseView(None, "TRIM_HORIZON", is_ended=False)
BUSY = LeaseView("flights-lambda-0", LAST_CHECKPOINT, is_ended=False)
ENDED = LeaseView(None, "SHARD_END", is_ended=True)
SHARDS = (
    shard(0, (0, 1)),
    shard(1, (1, 2)),
    shard(2, (2, 3), is_open=False),
    shard(3, (3, 4), is_open=False),
    shard(4, (2, 4), 2, 3),
)
S0, S1, S2, S3, S4 = (s.shard_id for s in SHARDS)


def snapshot(leases: Mapping[str, LeaseView], **fields: object) -> Snapshot:
    known = {
        "phase": Phase.FLOW,
        "shards": SHARDS,
        "total": 10_000,
        "put": {S0: 3_000, S4: 500},
        "handled": {S0: 1_000},
    }
    return Snapshot(leases=leases, **{**known, **fields})  # type: ignore[arg-type]


def text_of(renderable: RenderableType) -> str:
    console = Console(file=io.StringIO(), width=WIDTH + 10, record=True)
    console.print(renderable)
    return console.export_text()


def test_a_row_says_who_has_the_shard_how_far_it_is_and_what_waits() -> None:
    lines = text_of(draw(snapshot({S0: BUSY}, rates={S0: 432.0}))).splitlines()
    row = next(line for line in lines if "flights-lambda-0" in line)
    for words in ("…5167874:311", "1,000", "432", "2,000"):
        assert words in row


def test_a_merged_shard_hangs_below_its_last_parent_and_names_both() -> None:
    lines = text_of(draw(snapshot({S2: ENDED, S3: ENDED, S4: FREE}))).splitlines()
    below = next(index for index, line in enumerate(lines) if "└─4 2+3" in line)
    assert lines[below - 1].split()[1] == "3"
    assert "ended" in lines[below - 1]
    assert "nobody" in lines[below]


def test_nothing_is_wider_than_the_panel_and_the_height_stays() -> None:
    many = tuple(f"0:{n:02}  shard {n} " + "x" * 200 for n in range(HAPPENINGS_SHOWN * 2))
    full = snapshot(
        {S0: BUSY}, put={S0: 10**7, S4: 10**7}, rates={S0: 99_999.0}, happenings=many, total=10**8
    )
    lines = text_of(draw(full)).splitlines()
    assert {len(line.rstrip()) for line in lines if line.strip()} == {WIDTH}
    assert len(lines) == len(text_of(draw(snapshot({}))).splitlines())


def test_without_shards_it_says_what_the_deployment_is_at() -> None:
    assert "3/32 CREATE_COMPLETE" in text_of(
        draw(Snapshot(phase=Phase.DEPLOY, detail="3/32 CREATE_COMPLETE"))
    )


def test_the_line_for_where_there_is_no_terminal() -> None:
    line = progress_line(snapshot({S0: BUSY}, elapsed=72.0, ticks=5))
    assert line.startswith("1:12  events flow: 3,500 put, 1,000 of 10,000 handled")
    assert "5 ticks" in line


def test_a_closed_shard_whose_lease_is_cleaned_up_has_ended_when_its_children_have_leases() -> None:
    assert snapshot({S4: FREE}).has_ended(SHARDS[2])
    assert not snapshot({}).has_ended(SHARDS[2])
    assert not snapshot({S4: FREE}).has_ended(SHARDS[0])


def test_unattended_are_shards_with_events_that_nobody_has_and_whose_parents_have_ended() -> None:
    assert snapshot({S0: BUSY, S4: FREE}).unattended() == [S4]
    assert snapshot({S0: BUSY, S2: ENDED, S3: ENDED, S4: FREE}).unattended() == [S4]
    assert snapshot({S0: BUSY, S2: ENDED, S3: BUSY, S4: FREE}).unattended() == []
    assert snapshot({S0: FREE, S2: ENDED, S3: BUSY, S4: FREE}).unattended() == [S0]
    assert snapshot({S0: FREE, S4: BUSY}, handled={S0: 3_000}).unattended() == []


def test_what_is_told_are_ends_and_beginnings_but_not_every_release() -> None:
    before = snapshot({S0: FREE, S1: FREE, S2: BUSY, S3: ENDED}, handled={})
    after = snapshot({S0: BUSY, S1: BUSY, S2: ENDED, S3: ENDED, S4: FREE}, handled={S1: 5})
    assert changes(before, after) == [
        "shard 2 handled to the end: the children may begin",
        "flights-lambda-0 begins with shard 0",
    ]
    assert changes(after, replace(after, leases={**after.leases, S0: FREE})) == []


def test_a_terminal_of_eighty_columns_and_twenty_four_lines_is_enough() -> None:
    lines = text_of(draw(snapshot({S0: BUSY, S4: FREE}, rates={S0: 9_999.0}), width=80)).splitlines()
    assert {len(line.rstrip()) for line in lines if line.strip()} == {80}
    assert len(lines) + 2 <= 24  # the demo's stream has two more shards
    row = next(line for line in lines if "flights-lambda-0" in line)
    assert "2,000" in row


class Invocations:
    """Stands in for Lambda's client."""

    def __init__(self) -> None:
        self.payloads: list[str] = []

    def invoke(self, **call: str) -> None:
        self.payloads.append(call["Payload"])


def test_a_prompt_waits_for_the_last_ones_tick_and_for_windows_that_have_just_begun() -> None:
    calls = Invocations()
    prompter = Prompter(calls, "manager")
    waiting = snapshot({S0: FREE}, ticks=1)
    for now, seen, sent in (
        (0.0, snapshot({S0: BUSY}), 0),  # nobody waits
        (0.0, waiting, 1),
        (1.0, replace(waiting, ticks=2), 1),  # too soon
        (3.0, waiting, 1),  # its tick has not come yet
        (3.0, replace(waiting, ticks=2, windows_running=1), 1),  # a window is starting: it may take the shard
        (3.0, replace(waiting, ticks=2), 2),
        (20.0, replace(waiting, ticks=2), 3),  # that prompt is lost
    ):
        prompter.look(seen, now)
        assert len(calls.payloads) == sent, (now, seen)
    assert "prompt" in json.loads(calls.payloads[0])


def test_the_parts_of_what_is_handled_are_drawn_in_turn_and_the_line_has_sparks_share() -> None:
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
