"""For every history of reshards and trims: what the query does not deliver, it reports as a data gap, whatever its
trigger.

And conversely: a query that looks at the stream twice a day never reports a gap.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sublet.decisions.session.read_position import SHORTEST_RETENTION
from sublet.errors import DataGap
from sublet.spark.read.counting import NO_LIMIT, BatchShare
from sublet.spark.read.peeks import Peeker

from tests.spark.memory_query import MemoryQuery, WatchedStream, memory_query

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
FEW = BatchShare(records=3)
MANY = 100_000

Step = tuple[str, int]


class History:
    """A stream whose retention is a day, and the runs of one query on it. `shard_of`: where each record was put."""

    def __init__(self, shards: int, **options: str) -> None:
        self.query: MemoryQuery = memory_query(shards, **options)
        self.shard_of: dict[bytes, str] = {}
        self.parents: dict[str, frozenset[str]] = {}
        """Of every shard that ever existed."""

    def put(self, records: int) -> None:
        for _ in range(records):
            data = b"%d" % len(self.shard_of)
            self.shard_of[data] = self.query.stream.inner.put_record(data.decode(), data).shard_id

    def split(self, which: int) -> None:
        shards = self._open_shards()
        self.query.stream.inner.split(shards[which % len(shards)])
        self._note_parents()

    def merge(self, which: int) -> None:
        shards = self._open_shards()
        if len(shards) > 1:
            first = which % (len(shards) - 1)
            self.query.stream.inner.merge(shards[first], shards[first + 1])
            self._note_parents()

    def wait(self, hours: int) -> None:
        for _ in range(hours):
            self.query.clock.sleep(HOUR)
            self.query.stream.inner.trim(self.query.clock.now() - SHORTEST_RETENTION)

    def begin_run(self, available_now: bool) -> None:
        """A new process. It first finishes the log's last batch."""
        self.query.clock.sleep(5 * SECOND)
        self.query.restart()
        if len(self.query.rows) < len(self.query.log):
            self.query.run()
        if available_now:
            self.query.driver.set_targets()

    def run(self, batches: int, *, available_now: bool, limit: BatchShare = NO_LIMIT, crash: bool = False) -> None:
        """At most this many batches; with `crash` it is killed after planning the last one."""
        self.begin_run(available_now)
        for number in range(batches):
            if not self.query.plan(limit):
                return
            if not (crash and number == batches - 1):
                self.query.run()

    def turn(self, step: Step) -> None:
        name, number = step
        match name:
            case "put" | "split" | "merge" | "wait":
                getattr(self, name)(number)
            case "run":
                self.run(MANY, available_now=False, limit=(NO_LIMIT, FEW)[number % 2])
            case "available now":
                self.run(MANY, available_now=True, limit=(NO_LIMIT, FEW)[number % 2])
            case "crash":
                self.run(1 + number // 2, available_now=bool(number % 2), limit=FEW, crash=True)

    def _note_parents(self) -> None:
        shards = self.query.stream.inner.list_shards()
        self.parents |= {shard.shard_id: shard.parent_shard_ids for shard in shards}

    def _open_shards(self) -> list[str]:
        shards = [shard for shard in self.query.stream.inner.list_shards() if shard.is_open]
        return [shard.shard_id for shard in sorted(shards, key=lambda shard: shard.hash_key_range)]

    @property
    def delivered(self) -> Counter[bytes]:
        return Counter(row.data for row in self.query.all_rows)

    @property
    def told(self) -> set[str]:
        """The shards with a reported gap, and their ancestors: a shard whose children are gone too is never named."""
        whats = [str(x.fields["what"]) for x in self.query.memory_log.lines if x.message == "data gap"]
        found = {shard_id for what in whats for shard_id in re.findall(r"shardId-\d+", what)}
        while older := {parent for each in found for parent in self.parents.get(each, ())} - found:
            found |= older
        return found


def steps(hours: st.SearchStrategy[int]) -> st.SearchStrategy[list[Step]]:
    few = st.integers(0, 5)
    return st.lists(
        st.one_of(
            *(st.tuples(st.just(name), few) for name in ("put", "split", "merge", "available now", "run", "crash")),
            st.tuples(st.just("wait"), hours),
        ),
        max_size=12,
    )


@pytest.mark.slow
@given(
    shards=st.integers(1, 2),
    first=st.sampled_from(["run", "available now", "crash"]),
    history=steps(st.sampled_from([1, 12, 25, 50])),
    last=st.booleans(),
)
def test_every_gap_is_reported(shards: int, first: str, history: list[Step], last: bool) -> None:
    world = History(shards, failOnDataLoss="false")
    for step in [(first, 0), *history]:
        world.turn(step)
    world.run(MANY, available_now=last)
    lost = world.shard_of.keys() - world.delivered.keys()
    assert {world.shard_of[data] for data in lost} <= world.told
    assert set(world.delivered.values()) <= {1}


@pytest.mark.slow
@given(
    shards=st.integers(1, 2),
    history=steps(st.just(11)),
    triggers=st.lists(st.sampled_from(["run", "available now"]), min_size=1, max_size=3),
)
def test_a_query_that_looks_twice_a_day_delivers_everything_and_reports_no_gap(
    shards: int, history: list[Step], triggers: list[str]
) -> None:
    world = History(shards)
    world.turn((triggers[0], 0))
    for number, step in enumerate(history):
        world.turn(step)
        if step[0] == "wait":
            world.turn((triggers[number % len(triggers)], 0))
    world.run(MANY, available_now=True)
    assert world.delivered == Counter(world.shard_of.keys())


HISTORIES: dict[str, list[Step]] = {
    "a shard is gone before it was read to its end": [("put", 5), ("split", 0), ("wait", 30), ("put", 5)],
    "a shard came and went, between one read to its end and one that is there": [
        *(("split", 0), ("crash", 3), ("run", 0), ("split", 0), ("put", 9), ("split", 0), ("wait", 30)),
        ("put", 5),
    ],
    "all that came after the last record read is gone, and the shard is open": [("put", 5), ("wait", 30)],
    "all that came after the last record read is gone, and the shard is closed": [
        *(("put", 5), ("wait", 30), ("split", 0)),
    ],
    "records of a shard of which nothing was read": [("split", 0), ("run", 0), ("put", 9), ("wait", 30)],
    "a batch was planned, and all that it has is gone": [("put", 5), ("crash", 0), ("wait", 30)],
}


@pytest.mark.parametrize("available_now", [True, False])
@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES.keys())
def test_ways_to_lose_records(history: list[Step], available_now: bool) -> None:
    world = History(1, failOnDataLoss="false")
    for step in (("put", 5), ("run", 0), *history):
        world.turn(step)
    world.run(MANY, available_now=available_now)
    lost = world.shard_of.keys() - world.delivered.keys()
    assert lost
    assert {world.shard_of[data] for data in lost} <= world.told
    told = len(world.query.memory_log.lines)
    world.run(MANY, available_now=available_now)
    assert len(world.query.memory_log.lines) == told, "a gap is told of once"


@pytest.mark.parametrize("available_now", [True, False])
@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES.keys())
def test_or_to_fail_because_of_them(history: list[Step], available_now: bool) -> None:
    """At each start, until it is allowed to go on."""
    world = History(1)
    for step in (("put", 5), ("run", 0), *history):
        world.turn(step)
    for _ in range(2):
        with pytest.raises(DataGap, match="Set failOnDataLoss to false"):
            world.run(MANY, available_now=available_now)


def test_a_parent_that_is_gone_is_reported_even_if_data_loss_is_accepted() -> None:
    """The listing for the targets leaves it out, and its children wait for it."""
    world = History(1)
    for step in (("put", 5), ("available now", 0), ("put", 5), ("split", 0), ("wait", 30), ("put", 5)):
        world.turn(step)
    with pytest.raises(DataGap, match=r"shardId-000000000000, read up to .* is gone"):
        world.run(MANY, available_now=True)


def resharded_a_day_ago(shards: int) -> MemoryQuery:
    """The children of each shard have records that are a day old, and nothing of them was read."""
    world = History(shards)
    world.put(10 * shards)
    world.run(MANY, available_now=False)
    for shard_id in world._open_shards():
        world.query.stream.inner.split(shard_id)
    world.put(40 * shards)
    world.query.clock.sleep(23 * HOUR)
    world.query.restart()
    return world.query


def test_children_of_an_old_reshard_take_one_look_at_each_parent() -> None:
    query = resharded_a_day_ago(8)
    while not query.rows[-1] or "shardId-000000000008" not in {row.shard_id for row in query.rows[-1]}:
        assert query.plan(BatchShare(records=160))
        before = query.stream.calls.copy()
        query.run()
    made = query.stream.calls - before
    assert made["describe"] == 0
    assert made["open"] <= 16 + 8, "a task for each child, and a look at each parent"


@pytest.mark.parametrize("call", ["has_shard", "holds", "holds_any"])
def test_doubtful_shards_are_asked_about_side_by_side(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call waits for the other one."""
    together = Barrier(2)

    def beside(real: Callable[..., bool]) -> Callable[..., bool]:
        def wait(*arguments: Any) -> bool:
            together.wait(timeout=5)
            return real(*arguments)

        return wait

    if call == "holds_any":
        query = resharded_a_day_ago(2)
    else:
        world = History(2, failOnDataLoss="false")
        world.put(20)
        world.run(MANY, available_now=False)
        if call == "has_shard":
            world.split(0)
            world.split(2)
            world.wait(30)
        else:
            world.query.clock.sleep(30 * HOUR)
        query = world.query
        query.restart()
    owner = WatchedStream if call == "has_shard" else Peeker
    monkeypatch.setattr(owner, call, beside(getattr(owner, call)))
    query.run_all(FEW)
    assert not together.broken
