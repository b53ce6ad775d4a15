"""What empty pages prove, when that is worth a note in the row, and where a shard is opened with such a note."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from sublet.decisions.session.quiet import ARRIVALS_DIFFER_BY, NOTHING_WALKED, WalkedUntil, begun, opening
from sublet.decisions.session.read_position import IteratorType, ReadPosition, after
from sublet.protocol.checkpoint import AT_TIMESTAMP, LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import Lease, Position, QuietUntil
from sublet.protocol.records import Page, StreamRecord
from sublet.testing.memory.clock import BEGINNING

NOW = BEGINNING
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
AT_100 = Position(Checkpoint("100"))
LEASE = Lease("shardId-0", Checkpoint("100"))


def empty(behind: timedelta, at: datetime | None = NOW) -> Page:
    return Page((), 0, behind // timedelta(milliseconds=1), answered_at=at)


def full(arrived: datetime, behind: timedelta = HOUR) -> Page:
    record = StreamRecord("100", b"", "key", arrived)
    return Page((record,), 0, behind // timedelta(milliseconds=1), answered_at=NOW)


@pytest.mark.parametrize(
    ("because", "pages", "until"),
    [
        ("the answer's moment less its lag", [empty(HOUR)], NOW - HOUR),
        ("at the tip, the answer's moment", [empty(0 * HOUR)], NOW),
        ("further with each page", [empty(HOUR), empty(30 * MINUTE)], NOW - 30 * MINUTE),
        ("never back: its iterator had expired", [empty(MINUTE), empty(HOUR)], NOW - MINUTE),
        ("more may follow a record at once", [full(NOW - HOUR)], None),
        ("what was proved before was of less", [empty(MINUTE), full(NOW - HOUR)], None),
        ("our own clock proves nothing", [empty(HOUR, at=None)], None),
        ("an ended shard is not opened again", [empty(0 * HOUR)._replace(is_shard_end=True)], None),
    ],
)
def test_empty_pages_prove_a_shard_quiet_until_their_moment(
    because: str, pages: list[Page], until: datetime | None
) -> None:
    walked = NOTHING_WALKED
    for page in pages:
        walked = walked.after(page)
    assert walked.until == until, because


@pytest.mark.parametrize(
    ("walked", "is_worth_it"),
    [
        (NOTHING_WALKED, False),
        (WalkedUntil(NOW, None), False),
        (WalkedUntil(NOW - ARRIVALS_DIFFER_BY, NOW), False),
        (WalkedUntil(NOW - ARRIVALS_DIFFER_BY - SECOND, NOW), True),
    ],
    ids=["nothing", "a record", "a record just before", "a record longer ago"],
)
def test_quiet_time_is_noted_only_well_after_the_last_record(walked: WalkedUntil, is_worth_it: bool) -> None:
    """Opened two minutes before a record, a shard would bring what came with it again."""
    assert walked.quiet(AT_100) == (QuietUntil(NOW, AT_100) if is_worth_it else None)


def test_a_reader_that_was_given_no_record_does_not_know_how_near_the_one_before_is() -> None:
    """Two minutes of a busy shard's records, read again by each window, can be more than a window has time for."""
    walked = begun(after("100")).after(empty(HOUR))
    assert walked.quiet(AT_100) is None, "the record that it was opened behind may have come a moment before"
    walked = walked.after(empty(HOUR - ARRIVALS_DIFFER_BY))
    assert walked.quiet(AT_100) is None
    walked = walked.after(empty(HOUR - ARRIVALS_DIFFER_BY - SECOND))
    assert walked.quiet(AT_100) is not None


def test_quiet_time_is_noted_two_minutes_beyond_the_opened_timestamp() -> None:
    walked = begun(ReadPosition(IteratorType.AT_TIMESTAMP, "100", NOW - HOUR))
    assert walked.after(empty(HOUR - ARRIVALS_DIFFER_BY)).quiet(AT_100) is None
    assert walked.after(empty(HOUR - ARRIVALS_DIFFER_BY - SECOND)).quiet(AT_100) is not None


def quiet(lease: Lease, until: datetime = NOW) -> Lease:
    return replace(lease, quiet=QuietUntil(until, lease.position))


BY_NUMBER = ReadPosition(IteratorType.AT_SEQUENCE_NUMBER, "100")
PINNED = replace(LEASE, checkpoint=LATEST, start_at=NOW - HOUR)


@pytest.mark.parametrize(
    ("because", "lease", "position"),
    [
        ("nothing is known", LEASE, BY_NUMBER),
        (
            "two minutes earlier, and only in the shard that gave the number",
            quiet(LEASE),
            ReadPosition(IteratorType.AT_TIMESTAMP, "100", NOW - 2 * MINUTE),
        ),
        (
            "it is known of another checkpoint",
            replace(LEASE, quiet=QuietUntil(NOW, Position(Checkpoint("99")))),
            BY_NUMBER,
        ),
        (
            "within the record is another checkpoint",
            replace(quiet(LEASE), checkpoint=Checkpoint("100", 1)),
            BY_NUMBER,
        ),
        (
            "never written to",
            quiet(replace(LEASE, checkpoint=TRIM_HORIZON)),
            ReadPosition(IteratorType.AT_TIMESTAMP, None, NOW - 2 * MINUTE),
        ),
        ("pinned", quiet(PINNED), ReadPosition(IteratorType.AT_TIMESTAMP, None, NOW - 2 * MINUTE)),
        (
            "not before the pin",
            quiet(PINNED, NOW - HOUR + MINUTE),
            ReadPosition(IteratorType.AT_TIMESTAMP, None, NOW - HOUR),
        ),
        (
            "pinned elsewhere",
            replace(quiet(PINNED), start_at=NOW - 2 * HOUR),
            ReadPosition(IteratorType.AT_TIMESTAMP, None, NOW - 2 * HOUR),
        ),
        (
            "at a moment that another row has",
            replace(quiet(PINNED), checkpoint=AT_TIMESTAMP),
            ReadPosition(IteratorType.AT_TIMESTAMP, None, NOW - HOUR),
        ),
        ("ended", quiet(replace(LEASE, checkpoint=SHARD_END)), None),
    ],
)
def test_quiet_shard_is_opened_at_its_quiet_time(because: str, lease: Lease, position: ReadPosition | None) -> None:
    assert opening(lease) == position, because
