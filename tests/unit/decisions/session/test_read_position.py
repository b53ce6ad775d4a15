"""Where reading a shard begins, what is skipped, and when records may have been lost."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sublet.decisions.session.read_position import (
    LONGEST_RETENTION,
    NOTHING_READ,
    IteratorType,
    PinnedStart,
    ReadPosition,
    after,
    after_page,
    may_have_lost,
    needs_pin,
    not_yet_handled,
    read_position,
    shows_what_follows,
)
from sublet.protocol.checkpoint import AT_TIMESTAMP, LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import Lease
from sublet.protocol.records import Page, StreamRecord, UserRecord
from sublet.settings import StartKind, StartPosition

from tests.doubles.engine_world import moment

NOW = moment("2026-01-31T08:00:00")
EARLIER = moment("2026-01-30T08:00:00")
LEASE = Lease("shardId-000000000000", TRIM_HORIZON)
FROM_HORIZON, FROM_LATEST = StartPosition(StartKind.TRIM_HORIZON), StartPosition(StartKind.LATEST)
FROM_MOMENT = StartPosition(StartKind.AT_TIMESTAMP, EARLIER)


@pytest.mark.parametrize(
    ("because", "lease", "expected"),
    [
        ("the horizon", LEASE, ReadPosition(IteratorType.TRIM_HORIZON)),
        (
            "a number is opened AT, so that the rest of an aggregate comes too",
            replace(LEASE, checkpoint=Checkpoint("100", 3)),
            ReadPosition(IteratorType.AT_SEQUENCE_NUMBER, "100"),
        ),
        (
            "a pinned LATEST lease begins at its pin",
            replace(LEASE, checkpoint=LATEST, start_at=EARLIER),
            ReadPosition(IteratorType.AT_TIMESTAMP, at=EARLIER),
        ),
        (
            "AT_TIMESTAMP with its moment",
            replace(LEASE, checkpoint=AT_TIMESTAMP, start_at=EARLIER),
            ReadPosition(IteratorType.AT_TIMESTAMP, at=EARLIER),
        ),
        (
            "AT_TIMESTAMP without any moment: too much is better than a gap",
            replace(LEASE, checkpoint=AT_TIMESTAMP),
            ReadPosition(IteratorType.TRIM_HORIZON),
        ),
        ("an ended lease has nothing to open", replace(LEASE, checkpoint=SHARD_END), None),
    ],
)
def test_a_lease_is_opened_at(because: str, lease: Lease, expected: ReadPosition | None) -> None:
    assert read_position(lease) == expected, because


def test_going_on_is_after_the_last_fetched_record() -> None:
    assert after("100") == ReadPosition(IteratorType.AFTER_SEQUENCE_NUMBER, "100")


@pytest.mark.parametrize(
    ("because", "lease", "start", "expected"),
    [
        ("LATEST is pinned now", replace(LEASE, checkpoint=LATEST), FROM_LATEST, PinnedStart(NOW)),
        ("once", replace(LEASE, checkpoint=LATEST, start_at=EARLIER), FROM_LATEST, None),
        ("whatever our own setting", replace(LEASE, checkpoint=LATEST), FROM_HORIZON, PinnedStart(NOW)),
        (
            "Java's AT_TIMESTAMP: our moment",
            replace(LEASE, checkpoint=AT_TIMESTAMP),
            FROM_MOMENT,
            PinnedStart(EARLIER),
        ),
        ("which we may not have", replace(LEASE, checkpoint=AT_TIMESTAMP), FROM_HORIZON, None),
        ("the horizon needs none", LEASE, FROM_LATEST, None),
        ("nor does a number", replace(LEASE, checkpoint=Checkpoint("100")), FROM_LATEST, None),
    ],
)
def test_a_pin_is_needed_for(because: str, lease: Lease, start: StartPosition, expected: PinnedStart | None) -> None:
    assert needs_pin(lease, [None], start, NOW) == expected, because


@pytest.mark.parametrize(
    "parents", [[replace(LEASE, checkpoint=SHARD_END)], [None, replace(LEASE, checkpoint=SHARD_END)]]
)
def test_a_latest_lease_that_follows_on_a_leased_parent_begins_with_its_shard(
    parents: list[Lease | None],
) -> None:
    """Two first ticks around a reshard have created both at LATEST: what came to the child since then is awaited."""
    child = replace(LEASE, checkpoint=LATEST)
    assert needs_pin(child, parents, FROM_LATEST, NOW) == PinnedStart(NOW - LONGEST_RETENTION)
    assert needs_pin(replace(child, start_at=EARLIER), parents, FROM_LATEST, NOW) is None


def test_no_parents_are_no_leased_parents() -> None:
    assert needs_pin(replace(LEASE, checkpoint=LATEST), [], FROM_LATEST, NOW) == PinnedStart(NOW)


def stream_record(number: str) -> StreamRecord:
    return StreamRecord(number, b"", "key", NOW)


def user_records(*positions: tuple[str, int]) -> list[UserRecord]:
    return [UserRecord(b"", "key", sub, stream_record(number)) for number, sub in positions]


ALL = user_records(("99", 0), ("100", 0), ("100", 1), ("100", 2), ("101", 0))


@pytest.mark.parametrize(
    ("checkpoint", "left"),
    [
        (TRIM_HORIZON, 5),
        (LATEST, 5),
        (Checkpoint("98"), 5),
        (Checkpoint("99"), 4),
        (Checkpoint("100", 1), 2),
        (Checkpoint("100", 2), 1),
        (Checkpoint("101"), 0),
        (Checkpoint("1000"), 0),
    ],
)
def test_records_up_to_the_checkpoint_are_skipped_in_numeric_order(checkpoint: Checkpoint, left: int) -> None:
    assert not_yet_handled(ALL, checkpoint) == ALL[len(ALL) - left :]


AT_100 = replace(LEASE, checkpoint=Checkpoint("100"))
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("because", "lease", "first", "expected"),
    [
        ("the checkpointed record is still there", AT_100, "100", False),
        ("it is not, and nothing is known", AT_100, "150", True),
        ("a day after the last look at the tip", replace(AT_100, caught_up_at=NOW - DAY), "150", True),
        (
            "less than a day: no record is trimmed that young, even if a clock was off by an hour",
            replace(AT_100, caught_up_at=NOW - DAY + timedelta(hours=1, milliseconds=1)),
            "150",
            False,
        ),
        (
            "it may have been, by as much as that",
            replace(AT_100, caught_up_at=NOW - DAY + timedelta(hours=1)),
            "150",
            True,
        ),
        ("nothing at all is left to be read", AT_100, None, True),
        ("nothing is, since nothing has come", replace(AT_100, caught_up_at=NOW), None, False),
        ("nor was there a checkpoint", LEASE, None, False),
        ("from the horizon nothing is missed", LEASE, "150", False),
        ("nor from a moment", replace(LEASE, checkpoint=AT_TIMESTAMP, start_at=EARLIER), "150", False),
    ],
)
def test_records_may_have_been_lost(because: str, lease: Lease, first: str | None, expected: bool) -> None:
    assert may_have_lost(lease, None if first is None else stream_record(first), NOW) is expected, because


@pytest.mark.parametrize("checkpoint", [TRIM_HORIZON, Checkpoint("100")])
def test_start_positions_timestamp_pins_no_lease_with_another_start(checkpoint: Checkpoint) -> None:
    since = StartPosition(StartKind.AT_TIMESTAMP, EARLIER)
    assert needs_pin(replace(LEASE, checkpoint=checkpoint), [], since, NOW) is None


def test_gap_is_not_suspected_before_the_first_record() -> None:
    quiet = after_page(NOTHING_READ, Page((), 0, 0), NOW)
    assert quiet.in_doubt(NOW + 2 * DAY) is None
    assert NOTHING_READ.in_doubt(NOW) is None


@pytest.mark.parametrize(
    ("because", "behind", "later", "is_in_doubt"),
    [
        ("at the tip nothing older was unread", timedelta(0), DAY - timedelta(hours=1), False),
        ("a clock may be off by an hour", timedelta(0), DAY - timedelta(minutes=59), True),
        ("what was unread was old already", DAY / 2, DAY / 2, True),
        ("a reader as slow as retention is asked at once", DAY, timedelta(0), True),
    ],
)
def test_last_read_record_is_in_doubt_when_retention_may_have_passed_it(
    because: str, behind: timedelta, later: timedelta, is_in_doubt: bool
) -> None:
    page = Page((stream_record("100"),), 1, behind // timedelta(milliseconds=1))
    read = after_page(NOTHING_READ, page, NOW)
    assert read.in_doubt(NOW + later) == ("100" if is_in_doubt else None), because


def test_proof_of_the_last_read_record_holds_for_a_minute() -> None:
    page = Page((stream_record("100"),), 1, 3 * DAY // timedelta(milliseconds=1))
    proved = after_page(NOTHING_READ, page, NOW).with_proof(NOW)
    assert proved.in_doubt(NOW) is None
    assert proved.in_doubt(NOW + timedelta(seconds=59)) is None, "it is asked for once a minute"
    assert proved.in_doubt(NOW + timedelta(minutes=1)) == "100"
    assert after_page(proved, Page((), 0, 0), NOW).last == "100"


@pytest.mark.parametrize(
    ("page", "shows"),
    [
        (Page((), 0, 0), True),
        (Page((), 0, 1), False),
        (Page((), 0, 1, is_shard_end=True), True),
        (Page((StreamRecord("1", b"", "k", NOW),), 0, 1), True),
    ],
    ids=["at the tip", "far behind", "at the shard's end", "records"],
)
def test_page_shows_what_follows_unless_empty_and_behind(page: Page, shows: bool) -> None:
    assert shows_what_follows(page) is shows
