"""Which shards are probed because they seem unread, and since when they have stood still."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

import pytest
from sublet.decisions.manager.liveness import Sighting
from sublet.decisions.manager.probe import Probe, ProbeResult
from sublet.decisions.manager.unread_shards import (
    CAUGHT_UP_LATELY,
    HELD_CAUGHT_UP_LATELY,
    HELD_PROBES_MAX,
    PROBES_MAX,
    REMEMBERED_EVERY,
    ProbeSelection,
    UnreadShard,
    choose_probes,
    first_probes,
    remembered,
    stand_still,
)
from sublet.decisions.session.quiet import ARRIVALS_DIFFER_BY
from sublet.decisions.session.read_position import IteratorType, ReadPosition
from sublet.protocol.checkpoint import LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import Lease, Position, QuietUntil
from sublet.protocol.records import Page, StreamRecord
from sublet.settings import Settings
from sublet.testing.memory.clock import BEGINNING

NOW = BEGINNING
SECOND, MINUTE, HOUR, NOTHING = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(0)
SETTINGS = Settings(application="orders", stream="events", failover_time=30 * SECOND)
FREE = Lease("shardId-0", Checkpoint("100"), 7)
OWNED = replace(FREE, lease_owner="worker")
PARENT = Lease("shardId-1", TRIM_HORIZON)
CHILD = replace(FREE, parent_shard_ids=frozenset({"shardId-1"}))


@pytest.mark.parametrize(
    ("lease", "is_asked"),
    [
        (FREE, True),
        (replace(OWNED, lease_counter=6), True),
        (replace(FREE, checkpoint=SHARD_END), False),
        (replace(FREE, checkpoint=LATEST), False),
        (replace(FREE, checkpoint=LATEST, start_at=NOW), True),
        (replace(FREE, caught_up_at=NOW - CAUGHT_UP_LATELY + SECOND), False),
        (replace(FREE, caught_up_at=NOW - CAUGHT_UP_LATELY), True),
        (replace(FREE, quiet=QuietUntil(NOW - CAUGHT_UP_LATELY + SECOND, FREE.position)), False),
        (replace(FREE, quiet=QuietUntil(NOW, Position(Checkpoint("99")))), True),
        (CHILD, False),
    ],
    ids=[
        "free",
        "expired",
        "ended",
        "where it begins is not known",
        "it is",
        "read to its tip lately",
        "not lately",
        "known to be quiet",
        "of another checkpoint",
        "waits for its parent",
    ],
)
def test_probe_is_chosen_for_a_lease_that_may_be_unread(lease: Lease, is_asked: bool) -> None:
    quiet_since = {7: NOW - SECOND, 6: NOW - SETTINGS.failover_time - SECOND}[lease.lease_counter]
    sightings = {lease.lease_key: Sighting(lease.lease_counter, lease.actual_owner, quiet_since)}
    parent_too = replace(PARENT, caught_up_at=NOW)
    probes = choose_probes([lease, parent_too], sightings, {}, NOW, Random(0), SETTINGS)
    assert probes == (ProbeSelection((lease,)) if is_asked else ProbeSelection())


@pytest.mark.parametrize(
    ("lease", "is_asked"),
    [
        (OWNED, True),
        (replace(OWNED, caught_up_at=NOW - HELD_CAUGHT_UP_LATELY + SECOND), False),
        (replace(OWNED, caught_up_at=NOW - HELD_CAUGHT_UP_LATELY), True),
    ],
    ids=[
        "its row does not tell, as Java's",
        "its owner's heartbeats tell",
        "they go on, and do not tell any more",
    ],
)
def test_whom_a_living_owner_holds(lease: Lease, is_asked: bool) -> None:
    sightings = {lease.lease_key: Sighting(lease.lease_counter, lease.actual_owner, NOW - SECOND)}
    probes = choose_probes([lease], sightings, {}, NOW, Random(0), SETTINGS)
    assert probes == (ProbeSelection(held=(lease,)) if is_asked else ProbeSelection())


def test_child_of_an_unreadable_row_is_not_probed() -> None:
    assert choose_probes([CHILD], {}, {}, NOW, Random(0), SETTINGS) == ProbeSelection((CHILD,))
    assert choose_probes([CHILD], {}, {}, NOW, Random(0), SETTINGS, ["shardId-1"]) == ProbeSelection()


def test_stalled_shards_are_probed_first_and_then_the_longest_unheard_of() -> None:
    long, longer, never, unread, moved, asked = (
        replace(FREE, lease_key=f"shardId-{n}", caught_up_at=at)
        for n, at in enumerate((NOW - HOUR, NOW - 2 * HOUR, None, NOW - HOUR, NOW - 3 * HOUR, None))
    )
    known = {
        unread.lease_key: UnreadShard("100", NOW),
        moved.lease_key: UnreadShard("99", NOW),
        asked.lease_key: UnreadShard("100", None, NOW - 90 * MINUTE),
    }
    probes = choose_probes([long, longer, never, unread, moved, asked], {}, known, NOW, Random(0), SETTINGS)
    assert probes.unheld == (unread, never, moved, longer, asked, long)


@pytest.mark.parametrize(("lease", "most"), [(FREE, PROBES_MAX), (OWNED, HELD_PROBES_MAX)])
def test_among_equal_shards_each_is_probed_in_time(lease: Lease, most: int) -> None:
    many = [replace(lease, lease_key=f"shardId-{n}") for n in range(most + 1)]
    rounds = [choose_probes(many, {}, {}, NOW, Random(seed), SETTINGS) for seed in range(400)]
    assert {len(probes.held + probes.unheld) for probes in rounds} == {most}
    assert {lease for probes in rounds for lease in probes.held + probes.unheld} == set(many)


def probe(lease: Lease = FREE, known: UnreadShard | None = None, *, is_held: bool = False) -> Probe:
    chosen = ProbeSelection(held=(lease,)) if is_held else ProbeSelection((lease,))
    return first_probes(chosen, {} if known is None else {lease.lease_key: known})[lease.lease_key]


QUIET = replace(FREE, quiet=QuietUntil(NOW - HOUR, FREE.position))
BY_NUMBER = ReadPosition(IteratorType.AFTER_SEQUENCE_NUMBER, "100")


def by_moment(until: datetime) -> ReadPosition:
    return ReadPosition(IteratorType.AT_TIMESTAMP, "100", until - ARRIVALS_DIFFER_BY)


@pytest.mark.parametrize(
    ("lease", "known", "at"),
    [
        (FREE, None, BY_NUMBER),
        (FREE, UnreadShard("100", NOW), BY_NUMBER),
        (replace(FREE, checkpoint=TRIM_HORIZON), None, ReadPosition(IteratorType.TRIM_HORIZON)),
        (QUIET, None, by_moment(NOW - HOUR)),
        (FREE, UnreadShard("100", None, NOW - HOUR), by_moment(NOW - HOUR)),
        (QUIET, UnreadShard("100", None, NOW - MINUTE), by_moment(NOW - MINUTE)),
        (QUIET, UnreadShard("100", None, NOW - 2 * HOUR), by_moment(NOW - HOUR)),
        (FREE, UnreadShard("99", None, NOW - HOUR), BY_NUMBER),
        (replace(FREE, quiet=QuietUntil(NOW, Position(Checkpoint("99")))), None, BY_NUMBER),
    ],
    ids=[
        "behind what is handled",
        "also what stands still",
        "not begun",
        "as the row says",
        "as ticks know",
        "the later",
        "of both",
        "known of another checkpoint",
        "said of another checkpoint",
    ],
)
def test_probe_begins_at_the_position_of_the_lease(lease: Lease, known: UnreadShard | None, at: ReadPosition) -> None:
    assert probe(lease, known).at == at


def stream_record(number: int, arrived: datetime) -> StreamRecord:
    return StreamRecord(str(number), b"", "key", arrived)


def empty(behind: timedelta = NOTHING, at: datetime | None = NOW) -> Page:
    return Page((), 0, int(behind / SECOND) * 1000, answered_at=at)


def full(*records: StreamRecord) -> Page:
    return Page(records, 0, 0)


NEW, OLD = stream_record(101, NOW - MINUTE), stream_record(100, NOW - HOUR)


@pytest.mark.parametrize(
    ("pages", "answer"),
    [
        ((), ProbeResult.UNKNOWN),
        ((full(NEW),), ProbeResult.WAITS),
        ((full(OLD, NEW),), ProbeResult.WAITS),
        ((empty(),), ProbeResult.QUIET),
        ((empty(HOUR),), ProbeResult.UNKNOWN),
        ((empty(HOUR), full(NEW)), ProbeResult.WAITS),
        ((empty(HOUR), empty(MINUTE), empty()), ProbeResult.QUIET),
        ((full(OLD),), ProbeResult.UNKNOWN),
        ((Page((OLD,), 0, 0, is_shard_end=True),), ProbeResult.QUIET),
    ],
    ids=[
        "no answer",
        "one is there",
        "behind what is handled",
        "the tip",
        "far behind",
        "walked to one",
        "to the tip",
        "more may follow at once",
        "nothing will follow",
    ],
)
def test_an_empty_page_that_lags_is_no_answer(pages: Iterable[Page], answer: ProbeResult) -> None:
    looked = probe()
    for page in pages:
        assert looked.answer is ProbeResult.UNKNOWN, "no further page is asked for"
        looked = looked.after(page, NOW)
    assert looked.answer is answer
    assert looked.waiting == (MINUTE if answer is ProbeResult.WAITS else None)


def waits(age: timedelta, *, is_held: bool = False, lease: Lease = FREE, known: UnreadShard | None = None) -> Probe:
    return probe(lease, known, is_held=is_held).after(full(stream_record(101, NOW - age)), NOW)


@pytest.mark.parametrize(
    ("waiting", "before", "age"),
    [
        (90, None, 0),
        (90, UnreadShard("50", NOW - 60 * SECOND), 0),
        (90, UnreadShard("100", None, NOW - 60 * SECOND), 0),
        (90, UnreadShard("100", NOW - 60 * SECOND), 60),
        (30, UnreadShard("100", NOW - 60 * SECOND), 30),
        (30, UnreadShard("100", NOW + SECOND), 0),
    ],
    ids=["new", "it has moved", "it was quiet", "known", "its oldest record is younger", "a clock was ahead"],
)
def test_unread_age_is_the_time_since_the_shard_was_known_to_stand_still(
    waiting: int, before: UnreadShard | None, age: int
) -> None:
    known = {} if before is None else {FREE.lease_key: before}
    [found] = stand_still([waits(waiting * SECOND)], known, NOW, MINUTE)
    assert (found.age, found.is_held) == (age * SECOND, False)
    [kept] = remembered([FREE], [waits(waiting * SECOND)], known, NOW).values()
    assert kept.since == NOW - age * SECOND, "and so it is for the next tick"


@pytest.mark.parametrize("pages", [(), (empty(),), (empty(HOUR),)])
def test_quiet_and_unknown_shards_are_not_reported(pages: Iterable[Page]) -> None:
    looked = probe()
    for page in pages:
        looked = looked.after(page, NOW)
    assert stand_still([looked], {FREE.lease_key: UnreadShard("100", NOW - HOUR)}, NOW, MINUTE) == ()


def test_an_owner_of_ours_has_its_checkpoint_interval() -> None:
    known = {FREE.lease_key: UnreadShard("100", NOW - HOUR, owner="worker", owned_since=NOW - 5 * MINUTE)}
    ours = replace(OWNED, holder="item/1", holder_counter=OWNED.lease_counter)
    ages = [stand_still([waits(HOUR, is_held=True, lease=lease)], known, NOW, MINUTE)[0].age for lease in (OWNED, ours)]
    assert ages == [5 * MINUTE, 4 * MINUTE]


def test_owner_is_not_blamed_for_the_time_before_it_acquired_the_lease() -> None:
    """A program that pulls now and then finds records that have waited since it last ran."""
    known: Mapping[str, UnreadShard] = {FREE.lease_key: UnreadShard("100", NOW - HOUR)}
    ages = []
    owners = ["first", "first", None, "second", "second"]
    for number, owner in enumerate(owners):
        lease, now = replace(FREE, lease_owner=owner), NOW + number * 10 * MINUTE
        probes = [waits(2 * HOUR, is_held=owner is not None, lease=lease)]
        ages += [one.age for one in stand_still(probes, known, now, MINUTE)]
        known = remembered([lease], probes, known, now)
    waited_unread = HOUR + 20 * MINUTE
    assert ages == [NOTHING, 10 * MINUTE, waited_unread, NOTHING, 10 * MINUTE]


@pytest.mark.parametrize("heard", ["caught_up_at", "quiet"])
def test_unread_age_restarts_when_the_shard_was_read_to_its_tip_since(heard: str) -> None:
    at = NOW - 10 * MINUTE
    quiet = QuietUntil(at, FREE.position)
    lease = replace(FREE, caught_up_at=at) if heard == "caught_up_at" else replace(FREE, quiet=quiet)
    for since, age in ((at - SECOND, NOTHING), (at + SECOND, NOW - at - SECOND)):
        known = {FREE.lease_key: UnreadShard("100", since)}
        assert [one.age for one in stand_still([waits(HOUR, lease=lease)], known, NOW, MINUTE)] == [age]


def test_unread_shard_is_remembered_while_its_checkpoint_and_lease_stay() -> None:
    known = UnreadShard("100", NOW - SECOND)
    moved = replace(FREE, lease_key="shardId-1", checkpoint=Checkpoint("101"))
    unknown = replace(FREE, lease_key="shardId-2")
    unasked = replace(FREE, lease_key="shardId-3")
    quiet = replace(FREE, lease_key="shardId-4")
    leases = (FREE, moved, unknown, unasked, quiet)
    probes = [
        probe(FREE),
        probe(moved),
        probe(unknown).after(empty(HOUR), NOW),
        probe(quiet).after(empty(), NOW),
    ]
    before = {**{lease.lease_key: known for lease in leases}, "shardId-9": known}
    kept = remembered(leases, probes, before, NOW)
    assert kept == {lease.lease_key: known for lease in (FREE, unknown, unasked)}


def walked(lease: Lease, known: UnreadShard | None, *behind: timedelta) -> Probe:
    looked = probe(lease, known)
    for lag in behind:
        looked = looked.after(empty(lag), NOW)
    return looked


@pytest.mark.parametrize(
    ("lease", "known", "behind", "quiet_until"),
    [
        (FREE, None, (5 * HOUR, 4 * HOUR, 3 * HOUR), NOW - 3 * HOUR),
        (FREE, None, (5 * HOUR, NOTHING), NOW),
        (FREE, None, (5 * HOUR,), None),
        (FREE, None, (MINUTE, NOTHING), None),
        (FREE, UnreadShard("100", None, NOW - 5 * HOUR), (4 * HOUR,), NOW - 4 * HOUR),
        (FREE, UnreadShard("100", None, NOW - REMEMBERED_EVERY + SECOND), (NOTHING,), NOW - REMEMBERED_EVERY + SECOND),
        (QUIET, None, (NOTHING,), NOW),
        (replace(QUIET, quiet=QuietUntil(NOW - MINUTE, QUIET.position)), None, (NOTHING,), None),
        (QUIET, UnreadShard("100", None, NOW - HOUR - SECOND), (), None),
    ],
    ids=[
        "so far",
        "to the tip",
        "the first page may be just behind the record",
        "just behind it",
        "on from there",
        "not written for so little",
        "more than the row says",
        "little more",
        "the row says more by now",
    ],
)
def test_walked_position_is_remembered_for_the_next_tick(
    lease: Lease, known: UnreadShard | None, behind: Iterable[timedelta], quiet_until: datetime | None
) -> None:
    before = {} if known is None else {lease.lease_key: known}
    kept = remembered([lease], [walked(lease, known, *behind)], before, NOW)
    assert kept.get(lease.lease_key, UnreadShard("", None)).quiet_until == quiet_until


def test_a_start_that_was_moved_is_another_place() -> None:
    pinned = replace(FREE, checkpoint=LATEST, start_at=NOW - HOUR)
    kept = remembered([pinned], [walked(pinned, None, 50 * MINUTE, NOTHING)], {}, NOW)
    assert kept[FREE.lease_key].quiet_until == NOW
    assert remembered([replace(pinned, start_at=NOW - 2 * HOUR)], [], kept, NOW) == {}
