"""Reads several shards in one task, each by a thread of its own, at its own pace.

A shard gives 2 MB a second, far less than a core can take. A task of several shards reads one while others make it
wait. Each Arrow batch has rows of one shard, and a shard's batches come in order; those of different shards come as
they are read.

The threads fetch and decode pages, and the generator makes rows of them, so that a slow consumer keeps few rows in
memory, and few pages: all share one budget. The threads end with the generator, however it ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from typing import NamedTuple

import pyarrow as pa

from sublet.protocol.records import StreamRecord
from sublet.spark.read.connection import StreamAccess
from sublet.spark.read.page_memory import PageBudget, PageMemory
from sublet.spark.read.reading import RangeRows, ReadTask, read_range, record_pages
from sublet.spark.read.task_sleep import ReadingOver, until
from sublet.system.threads import ThreadSignal

AT_ONCE = 32
"""The most shards that a task reads at a time. At 2 MB a second each, they give as much as a core can take."""

TASK_BYTES = 64 * 2**20
"""The most memory for a task's pages."""

Access = Callable[[ReadTask], StreamAccess]


class _Pages(NamedTuple):
    """Some records of the task at this place, and the memory that they take."""

    place: int
    records: Sequence[StreamRecord]
    memory: int


class _Done(NamedTuple):
    """The task at this place has no more records."""

    place: int


def read_side_by_side(
    tasks: Sequence[ReadTask], access: Access, *, memory: int = TASK_BYTES, at_once: int = AT_ONCE
) -> Generator[pa.RecordBatch, None, None]:
    """The rows of all ranges. Raises what `read_range` raises for the first that fails; the others are not read on."""
    if len(tasks) == 1:
        yield from read_range(access(tasks[0]), tasks[0])
        return
    reading = _Reading(tasks, [access(task) for task in tasks], PageBudget(memory))
    threads = [
        threading.Thread(target=reading.work, daemon=True, name=f"sublet-shard-{number}")
        for number in range(min(at_once, len(tasks)))
    ]
    try:
        for thread in threads:
            thread.start()
        yield from reading.rows()
    finally:
        reading.end()
        for thread in threads:
            if thread.ident is not None:
                thread.join()


@dataclass(slots=True)
class _Reading:
    """What the threads of one task share with its generator."""

    tasks: Sequence[ReadTask]
    accesses: Sequence[StreamAccess]
    budget: PageBudget
    over: ThreadSignal = field(default_factory=ThreadSignal)
    waiting: SimpleQueue[int] = field(default_factory=SimpleQueue)
    found: SimpleQueue[_Pages | _Done | BaseException] = field(default_factory=SimpleQueue)

    def __post_init__(self) -> None:
        for place in range(len(self.tasks)):
            self.waiting.put(place)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """For the generator's thread."""
        rows = [RangeRows(access, task) for access, task in zip(self.accesses, self.tasks, strict=True)]
        unread = len(rows)
        while unread:
            match self.found.get():
                case _Pages(place, records, memory):
                    yield from rows[place].batches(records)
                    del records
                    self.budget.free(memory)
                case _Done(place):
                    rows[place].report()
                    unread -= 1
                case failure:
                    raise failure
        for each in rows:
            each.settle()

    def end(self) -> None:
        self.over.set()
        self.budget.close()

    def work(self) -> None:
        """For a thread: reads one range after another."""
        with until(self.over), suppress(Empty, ReadingOver):
            while not self.over.is_set():
                place = self.waiting.get_nowait()
                try:
                    self._read(place)
                except ReadingOver:
                    raise
                except BaseException as failure:  # noqa: BLE001 -- whatever it is, the generator raises it
                    self.found.put(failure)
                    return

    def _read(self, place: int) -> None:
        task, access = self.tasks[place], self.accesses[place]
        memory = PageMemory(self.budget, task.record_bytes, access.clock)
        for records in record_pages(replace(access, memory=memory), task):
            self.found.put(_Pages(place, records, memory.hand_over()))
            del records  # it is the generator's alone
            if self.over.is_set():
                raise ReadingOver
        self.budget.free(memory.hand_over())  # the last page may have had no record of the range
        self.found.put(_Done(place))
