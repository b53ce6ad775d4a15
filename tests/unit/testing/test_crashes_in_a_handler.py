"""`simulate` lets a handler die at any of its lines and right after its checkpoints, where classic mistakes lose
records.
"""

from __future__ import annotations

import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from types import FrameType
from typing import Any

import pytest
from sublet import Batch, UserRecord
from sublet.testing import SimulatedRun, simulate
from sublet.testing.simulation.handler_crashes import IN_THE_HANDLER, HandlerCrashes

WORLDS = 20
"""As many as docs/handlers.md shows."""

SOME = 7

Place = tuple[str, str, int]


def place(batch: Batch, record: UserRecord) -> Place:
    return batch.shard_id, record.sequence_number, record.sub_sequence_number


class Store:
    """A database that outlives the workers."""

    def __init__(self) -> None:
        self.rows: set[Place] = set()
        self.seen: set[Place] = set()

    def check(self, run: SimulatedRun) -> None:
        stored = len(self.rows)
        self.rows.clear()
        self.seen.clear()
        assert stored == run.records, "records lost"


def acknowledges_first(store: Store, batch: Batch) -> None:
    batch.checkpoint(batch.records[-1])
    for record in batch.records:
        store.rows.add(place(batch, record))


def marks_first(store: Store, batch: Batch) -> None:
    unseen = [record for record in batch.records if place(batch, record) not in store.seen]
    store.seen.update(place(batch, record) for record in unseen)
    for record in unseen:
        store.rows.add(place(batch, record))


def stores_first(store: Store, batch: Batch) -> None:
    for record in batch.records:
        store.rows.add(place(batch, record))
        batch.checkpoint(record)


@pytest.mark.slow
@pytest.mark.parametrize("mistake", [acknowledges_first, marks_first])
@pytest.mark.parametrize("first", [0, 1000])
def test_simulate_finds_a_classic_mistake_within_twenty_worlds(
    mistake: Callable[[Store, Batch], None], first: int
) -> None:
    store = Store()

    def handle(batch: Batch) -> None:
        mistake(store, batch)

    with pytest.raises(AssertionError, match="records lost"):
        simulate(handle, range(first, first + WORLDS), check=store.check)


@pytest.mark.slow
def test_simulate_passes_a_handler_that_stores_first() -> None:
    store = Store()

    def handle(batch: Batch) -> None:
        stores_first(store, batch)

    simulation = simulate(handle, SOME, check=store.check)
    assert sum(run.faults.get(IN_THE_HANDLER, 0) for run in simulation.runs) >= SOME


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        yield connection


@pytest.mark.slow
def test_a_crash_leaves_no_transaction_of_a_shared_connection_open(database: sqlite3.Connection) -> None:
    database.execute("CREATE TABLE rows (place TEXT PRIMARY KEY)")

    def handle(batch: Batch) -> None:
        with database:
            for record in batch.records:
                database.execute("REPLACE INTO rows VALUES (?)", [str(place(batch, record))])
        assert not database.in_transaction

    def check(run: SimulatedRun) -> None:
        assert not database.in_transaction
        assert database.execute("SELECT count(*) FROM rows").fetchone() == (run.records,)
        with database:
            database.execute("DELETE FROM rows")

    simulate(handle, SOME, check=check)


@pytest.mark.slow
def test_a_dead_handler_checkpoints_nothing_in_finally_or_except() -> None:
    store = Store()
    raised: Counter[str] = Counter()

    def handle(batch: Batch) -> None:
        try:
            for record in batch.records:
                store.rows.add(place(batch, record))
        except BaseException:
            try:
                batch.checkpoint(batch.records[-1])
            except BaseException as dead:
                raised[type(dead).__name__] += 1
                raise
            raised["nothing"] += 1
            raise

    simulate(handle, SOME, check=store.check)
    assert set(raised) == {"Crashed"}


@pytest.fixture
def traced() -> Iterator[list[int]]:
    """The lines that another trace function sees, as of a debugger or a coverage tool."""
    lines: list[int] = []

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        if frame.f_code.co_name != "observed":
            return None
        if event == "line":
            lines.append(frame.f_lineno - frame.f_code.co_firstlineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield lines
        assert sys.gettrace() is trace
    finally:
        sys.settrace(before)


def test_a_debugger_sees_every_line_of_the_handler(traced: list[int]) -> None:
    done: list[int] = []

    def observed(batch: Batch) -> None:
        done.append(1)
        batch.checkpoint(batch.records[-1])
        done.append(3)

    (run,) = simulate(observed, [0]).runs
    assert run.faults[IN_THE_HANDLER] > 0
    counts = Counter(traced)
    assert counts[1] >= done.count(1) > 0, "a crash at a line comes before the line is run"
    assert counts[2] > 0
    assert counts[3] >= done.count(3) > 0


def test_crashes_are_drawn_by_the_seed_alone() -> None:
    first, second = HandlerCrashes(7), HandlerCrashes(7)
    assert [first.draw(5) for _ in range(100)] == [second.draw(5) for _ in range(100)]
