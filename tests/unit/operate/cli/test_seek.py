"""`sublet seek`: its arguments, and what it prints."""

from __future__ import annotations

from argparse import ArgumentTypeError
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sublet.decisions.session.handled_position import HandledPosition
from sublet.operate.cli.main import main
from sublet.operate.cli.options.arguments import place
from sublet.operate.cli.positions.snapshots import snapshot_lines, snapshot_name
from sublet.operate.positions.planned_seek import PlannedSeek
from sublet.operate.positions.seek_text import plan_json, plan_lines
from sublet.operate.rules.seek import MoveEffect, plan_seek
from sublet.operate.rules.seek_estimate import CountedBy, MoveEstimate, SeekEstimate
from sublet.protocol.checkpoint import SHARD_END, TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import Lease, LeaseScan, Position
from sublet.protocol.shard import FULL_RANGE, Shard
from sublet.protocol.snapshot import Snapshot
from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.stream_key import StreamKey, shard_in_stream

NOW = datetime(2026, 11, 22, 8, tzinfo=UTC)
NUMBER = "49671359605419430805975963772123366797051541114446675970"
SHARDS = (
    Shard("shardId-000000000000", FULL_RANGE, is_open=False),
    Shard("shardId-000000000001", FULL_RANGE, "shardId-000000000000", starting_sequence_number="9"),
)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("earliest", None),
        ("Latest", NOW),
        ("90m", NOW - timedelta(minutes=90)),
        ("2026-11-22T07:00:00Z", NOW - timedelta(hours=1)),
        ("2026-11-22T09:00:00+02:00", NOW - timedelta(hours=1)),
    ],
)
def test_a_place_is_a_word_a_time_or_how_long_ago(text: str, moment: datetime | None) -> None:
    assert place(text).moment(NOW) == moment


@pytest.mark.parametrize("text", ["", "yesterday", "2026-11-22T08:00:00", "-1h", "1 h"])
def test_seek_target_is_refused_with_the_allowed_forms(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="earliest, latest, a time with its zone"):
        place(text)


STREAM = StreamIdentity("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", NOW)


def test_the_plan_shows_each_shard_with_its_owner_and_the_age_of_its_position() -> None:
    leases = (
        Lease(SHARDS[0].shard_id, SHARD_END),
        Lease(SHARDS[1].shard_id, Checkpoint(NUMBER), 7, "orders-lambda-0"),
    )
    wanted = {SHARDS[0].shard_id: Position(Checkpoint("5")), SHARDS[1].shard_id: Position(TRIM_HORIZON)}
    scan = LeaseScan(leases)
    in_time = {SHARDS[1].shard_id: HandledPosition(NOW - timedelta(hours=3), timedelta(0))}
    child = MoveEstimate(MoveEffect.REPEATS, NOW - timedelta(hours=5), NOW - timedelta(hours=3), 7_214)
    unknown = MoveEstimate(MoveEffect.REOPENS)
    estimate = SeekEstimate({SHARDS[0].shard_id: unknown, SHARDS[1].shard_id: child}, CountedBy.CLOUDWATCH)
    found = PlannedSeek("orders", plan_seek(scan, SHARDS, wanted), "seek to 5h", scan, in_time, STREAM, estimate)
    lines = [line.split("  ") for line in plan_lines(found, NOW)]
    assert [[part.strip() for part in line if part] for line in lines] == [
        ["seek to 5h"],
        ["shard", "effect", "extent", "now", "then", "owner"],
        ["shardId-000000000000", "reopens", "not known how much", "SHARD_END", "5", "-"],
        [
            "shardId-000000000001",
            "repeats",
            "2h, about 7,210 records",
            "…" + NUMBER[-18:] + ", 3h old",
            "TRIM_HORIZON",
            "orders-lambda-0",
        ],
        ["repeats about 7,210 records of 2h in 2 shards, by CloudWatch; 1 of these could not be estimated"],
    ]
    shown: Any = plan_json(found)
    assert shown["moves"][1] == {
        "shard": "shardId-000000000001",
        "effect": "repeats",
        "now": NUMBER,
        "handled_to": "2026-11-22T05:00:00+00:00",
        "then": "TRIM_HORIZON",
        "owner": "orders-lambda-0",
        "seconds": 7_200,
        "records": 7_214,
    }
    assert shown["estimate"] == {
        "repeats": {"shards": 2, "seconds": 7_200, "records": 7_214, "unknown": 1},
        "skips": {"shards": 0, "seconds": None, "records": None, "unknown": 0},
        "records_by": "CloudWatch",
        "past_retention": [],
        "catch_up_seconds": None,
        "catch_up_seconds_at_least": None,
        "falls_back": False,
    }


def test_the_columns_stay_under_their_titles_beside_a_long_extent() -> None:
    scan = LeaseScan((Lease(SHARDS[1].shard_id, Checkpoint(NUMBER), 7, "orders-lambda-0"),))
    plan = plan_seek(scan, SHARDS[1:], {SHARDS[1].shard_id: Position(TRIM_HORIZON)})
    estimate = MoveEstimate(MoveEffect.REPEATS, NOW - timedelta(hours=5), NOW)
    known = SeekEstimate({SHARDS[1].shard_id: estimate})
    _, titles, line, *_ = plan_lines(PlannedSeek("orders", plan, "seek to 5h", scan, {}, STREAM, known), NOW)
    assert "5h, not known how many records" in line
    assert [line.index(part) for part in ("…", "TRIM", "orders")] == [
        titles.index(title) for title in ("now", "then", "owner")
    ]


def to_the_beginning(lease: Lease) -> PlannedSeek:
    scan = LeaseScan((lease,))
    plan = plan_seek(scan, SHARDS[1:], {SHARDS[1].shard_id: Position(TRIM_HORIZON)})
    return PlannedSeek("orders", plan, "seek to earliest", scan, {}, STREAM)


def test_columns_are_as_wide_as_the_names_of_several_streams_shards() -> None:
    key = StreamKey("1" * 12, "orders", 1_700_000_000)
    shard = shard_in_stream(key, SHARDS[0])
    scan = LeaseScan((Lease(shard.shard_id, Checkpoint(NUMBER)),))
    plan = plan_seek(scan, (shard,), {shard.shard_id: Position(TRIM_HORIZON)})
    _, header, line, *_ = plan_lines(PlannedSeek("orders", plan, "seek to earliest", scan, {}, STREAM), NOW)
    assert header.index("effect") == line.index("repeats") == len(shard.shard_id) + 1


def test_a_plan_without_moves_says_so() -> None:
    lease = Lease(SHARDS[1].shard_id, TRIM_HORIZON)
    assert list(plan_lines(to_the_beginning(lease), NOW)) == [
        "seek to earliest",
        "1 stays where it is",
        "nothing to move",
    ]


def test_snapshots_have_a_line_each() -> None:
    snapshot = Snapshot("seek-1", NOW, "seek to 1h", {"a": Position(TRIM_HORIZON)}, ("a",))
    _, line = snapshot_lines([snapshot])
    assert line.split() == ["seek-1", "2026-11-22T08:00:00Z", "1", "seek", "to", "1h"]


@pytest.mark.parametrize(
    "arguments",
    [["seek"], ["seek", "1h", "--like", "other"], ["seek", "--to-snapshot", "a", "--from-file", "b"]],
)
def test_seek_takes_one_target(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert "usage: sublet seek" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", "../mine", "a b", "-x", "x" * 101])
def test_a_snapshot_has_a_name_that_a_file_can_have(name: str) -> None:
    with pytest.raises(ArgumentTypeError, match="is not a name"):
        snapshot_name(name)


def test_seek_escapes_control_characters_of_a_row() -> None:
    lease = Lease(SHARDS[1].shard_id, Checkpoint(NUMBER), 7, "own\x1b[2Jer")
    found = to_the_beginning(lease)
    snapshot = Snapshot("na\x1bme", NOW, "wh\x1by", {})
    assert all(line.isprintable() for line in (*plan_lines(found, NOW), *snapshot_lines([snapshot])))
