"""How a shard's past is put together from what is kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace
from sublet.decisions.manager.liveness import Sighting
from sublet.operate.cli.monitor.history import as_json, lines_of
from sublet.operate.rules.shard_history import NOT_KEPT, ShardEvent, shard_history
from sublet.protocol.checkpoint import TRIM_HORIZON, Checkpoint
from sublet.protocol.control import Order, Pause
from sublet.protocol.lag_history import LagSeen
from sublet.protocol.lease import Lease, Position
from sublet.protocol.snapshot import Snapshot, read_snapshot, snapshot_text

NOW = datetime(2026, 11, 22, 8, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SHARD = "shardId-000000000000"
THERE, BEGINNING = Position(Checkpoint("49", 2)), Position(TRIM_HORIZON)
SEEK = Snapshot(
    "seek-1",
    NOW - 9 * MINUTE,
    "seek to 1h",
    {SHARD: THERE, "other": THERE},
    (SHARD,),
    {SHARD: BEGINNING},
    "ann@desk",
)
NAMED = Snapshot("before-release", NOW - 20 * MINUTE, "by hand", {SHARD: BEGINNING}, by="bob@ci")
LEASE = Lease(SHARD, Checkpoint("51"), 7, "app-lambda-0", crashes=2)


def test_shard_history_tells_who_moved_it_and_when() -> None:
    found = shard_history(LEASE, [SEEK, NAMED], None, None)
    assert found.events == (
        ShardEvent(NAMED.taken_at, "kept as before-release", "bob@ci", "TRIM_HORIZON"),
        ShardEvent(SEEK.taken_at, "seek to 1h", "ann@desk", "49:2", "TRIM_HORIZON"),
    )
    assert found.today == ("position 51", "owner app-lambda-0, counter 7", "2 owners died at this position")
    assert found.not_kept == NOT_KEPT


def test_seek_of_other_shards_is_not_in_this_shards_history() -> None:
    assert shard_history(LEASE, [replace(SEEK, moved=("other",))], None, None).events == ()


def test_shard_history_merges_events_of_managers_owners_and_operators() -> None:
    sighting = Sighting(7, "app-lambda-0", NOW, True, NOW - 3 * MINUTE)
    pause = Pause(Order.PAUSE, NOW - MINUTE, "ann@desk", NOW + MINUTE)
    seen = LagSeen(NOW - 5 * MINUTE, timedelta(seconds=30), None)
    lease = Lease(SHARD, Checkpoint("51"), lag_history=(seen,))
    found = shard_history(lease, [], sighting, pause)
    assert [(event.what, event.by, event.after) for event in found.events] == [
        ("its owner reported", "", "30 s behind"),
        ("a lease manager saw it with another owner", "app-lambda-0", ""),
        ("pause", "ann@desk", "until 2026-11-22T08:01:00+00:00"),
    ]


def test_sighting_without_an_owner_names_nobody() -> None:
    sighting = Sighting(7, None, NOW, True, NOW - 3 * MINUTE)
    (seen,) = shard_history(LEASE, [], sighting, None).events
    assert seen.by == ""


def test_history_lines_name_what_is_not_kept_and_escape_control_characters() -> None:
    lines = list(lines_of(shard_history(LEASE, [replace(SEEK, why="se\x1bek", by="a\x1b")], None, None)))
    assert lines[0] == "2026-11-22T07:51:00Z  'se\\x1bek' by 'a\\x1b': 49:2 -> TRIM_HORIZON"
    assert all(line.isprintable() for line in lines)
    assert [line for line in lines if line.startswith("not kept: ")] == [f"not kept: {each}" for each in NOT_KEPT]
    assert next(iter(lines_of(shard_history(LEASE, [], None, None)))) == "nothing is known of its past"


def test_history_json_has_null_for_an_unknown_position() -> None:
    earlier = replace(SEEK, then={}, by="")
    assert as_json(shard_history(LEASE, [earlier], None, None))["events"] == [
        {
            "at": "2026-11-22T07:51:00+00:00",
            "what": "seek to 1h",
            "by": None,
            "before": "49:2",
            "after": None,
        }
    ]


def test_snapshot_keeps_author_and_targets_and_reads_earlier_versions() -> None:
    assert read_snapshot(snapshot_text(SEEK)) == SEEK
    earlier = '{"version": 1, "name": "s", "taken_at": 0, "why": "w", "moved": [], "positions": {"a": ["5", 0, null]}}'
    read = read_snapshot(earlier)
    assert (read.then, read.by) == ({}, "")
    assert read.positions == {"a": Position(Checkpoint("5"))}
