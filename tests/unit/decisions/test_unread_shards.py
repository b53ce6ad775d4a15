"""Which shards are asked about because nobody reads them, and how long they are known to have stood still."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from sublet.decisions.liveness import Sighting
from sublet.decisions.read_position import IteratorType
from sublet.decisions.unread_shards import (
    CAUGHT_UP_LATELY,
    PROBES_MAX,
    Probed,
    StandsStill,
    Unread,
    choose_probes,
    probe_position,
    remembered,
    stand_still,
)
from sublet.memory.clock import BEGINNING
from sublet.protocol.checkpoint import LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import Lease
from sublet.settings import Settings

NOW = BEGINNING
SECOND = timedelta(seconds=1)
SETTINGS = Settings(application="orders", stream="events", failover_time=30 * SECOND)
FREE = Lease("shardId-0", Checkpoint("100"), 7)
OWNED = replace(FREE, lease_owner="worker")
PARENT = Lease("shardId-1", TRIM_HORIZON)
CHILD = replace(FREE, parent_shard_ids=frozenset({"shardId-1"}))


@pytest.mark.parametrize(
    ("lease", "is_asked"),
    [
        (FREE, True),
        (OWNED, False),
        (replace(OWNED, lease_counter=6), True),
        (replace(FREE, checkpoint=SHARD_END), False),
        (replace(FREE, checkpoint=LATEST), False),
        (replace(FREE, checkpoint=LATEST, start_at=NOW), True),
        (replace(FREE, caught_up_at=NOW - CAUGHT_UP_LATELY + SECOND), False),
        (replace(FREE, caught_up_at=NOW - CAUGHT_UP_LATELY), True),
        (CHILD, False),
    ],
    ids=[
        "free", "its owner tells of it", "expired", "ended", "where it begins is not known", "it is", "read to its tip lately",
        "not lately", "waits for its parent",
    ],
)  # fmt: skip
def test_who_is_asked_about(lease: Lease, is_asked: bool) -> None:
    quiet_since = {7: NOW - SECOND, 6: NOW - SETTINGS.failover_time - SECOND}[lease.lease_counter]
    sightings = {lease.lease_key: Sighting(lease.lease_counter, lease.actual_owner, quiet_since)}
    parent_too = replace(PARENT, caught_up_at=NOW)
    probes = choose_probes([lease, parent_too], sightings, {}, NOW, Random(0), SETTINGS)
    assert probes == ((lease,) if is_asked else ())


def test_children_of_what_cannot_be_read_wait() -> None:
    assert choose_probes([CHILD], {}, {}, NOW, Random(0), SETTINGS) == (CHILD,)
    assert choose_probes([CHILD], {}, {}, NOW, Random(0), SETTINGS, ["shardId-1"]) == ()


def test_the_unread_come_first_and_then_those_not_heard_of_for_longest() -> None:
    long, longer, never, unread = (
        replace(FREE, lease_key=f"shardId-{n}", caught_up_at=at)
        for n, at in enumerate(
            (NOW - timedelta(hours=1), NOW - timedelta(hours=2), None, NOW - timedelta(hours=1))
        )
    )
    known = {unread.lease_key: Unread("100", NOW)}
    probes = choose_probes([long, longer, never, unread], {}, known, NOW, Random(0), SETTINGS)
    assert probes == (unread, never, longer, long)


def test_of_many_alike_each_is_asked_about_by_and_by() -> None:
    many = [replace(FREE, lease_key=f"shardId-{n}") for n in range(PROBES_MAX + 1)]
    rounds = [choose_probes(many, {}, {}, NOW, Random(seed), SETTINGS) for seed in range(40)]
    assert {len(probes) for probes in rounds} == {PROBES_MAX}
    assert set().union(*rounds) == set(many)


def test_a_shard_is_asked_behind_what_is_handled() -> None:
    position = probe_position(FREE)
    assert position is not None
    assert (position.type, position.sequence_number) == (IteratorType.AFTER_SEQUENCE_NUMBER, "100")
    position = probe_position(replace(FREE, checkpoint=TRIM_HORIZON))
    assert position is not None
    assert position.type is IteratorType.TRIM_HORIZON


@pytest.mark.parametrize(
    ("waiting", "before", "age"),
    [
        (None, Unread("100", NOW - 60 * SECOND), None),
        (90, None, 0),
        (90, Unread("50", NOW - 60 * SECOND), 0),
        (90, Unread("100", NOW - 60 * SECOND), 60),
        (30, Unread("100", NOW - 60 * SECOND), 30),
        (30, Unread("100", NOW + SECOND), 0),
    ],
    ids=[
        "nothing is to come",
        "new",
        "it has moved",
        "known",
        "its oldest record is younger",
        "a clock was ahead",
    ],
)
def test_how_long_a_shard_is_known_to_stand_still(
    waiting: int | None, before: Unread | None, age: int | None
) -> None:
    probed = Probed(FREE, None if waiting is None else waiting * SECOND)
    found = stand_still([probed], {} if before is None else {FREE.lease_key: before}, NOW)
    assert [one.age for one in found] == ([] if age is None else [age * SECOND])


def test_what_was_known_of_whom_nobody_answered_for_stays_while_its_checkpoint_does() -> None:
    standing = StandsStill(replace(FREE, lease_key="shardId-9"), 90 * SECOND, 60 * SECOND)
    known = Unread("100", NOW - SECOND)
    moved = replace(FREE, lease_key="shardId-1", checkpoint=Checkpoint("101"))
    unknown = replace(FREE, lease_key="shardId-2")
    kept = remembered(
        [standing], [FREE, moved, unknown], {FREE.lease_key: known, moved.lease_key: known}, NOW
    )
    assert kept == {FREE.lease_key: known, "shardId-9": Unread("100", NOW - 60 * SECOND)}
