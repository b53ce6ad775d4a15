"""Events for on_event: in order, from a thread of their own, so that nothing waits for a slow listener."""

from __future__ import annotations

import gc
from threading import Event as ThreadEvent
from threading import Thread
from typing import Any
from weakref import ref

import pytest
from sublet import Consumer, Context
from sublet.decisions.pull.pull_events import Event, EventKind
from sublet.errors import LeaseTableUnavailable
from sublet.pull.events import MAX_WAITING, SessionEvents
from sublet.pull.record import Record
from sublet.system.threads import ThreadTasks
from sublet.testing.memory import MemoryAccount

from tests.doubles.pulled import SECOND, PulledWorld
from tests.doubles.refusing_table import RefusingTable

PATIENCE = 20
"""Seconds that a test waits for what should take none."""


def account(records: int = 3) -> MemoryAccount:
    """A stream and a consumer, with real threads."""
    account = MemoryAccount()
    stream = Context(account).create_stream("orders", shards=1)
    stream.create_consumer("audit")
    for number in range(records):
        stream.put("a", b"%d" % number)
    return account


def test_an_on_event_that_never_returns_keeps_nothing_waiting() -> None:
    for_ever = ThreadEvent()
    try:
        consumer = Consumer("audit", "orders", account=account(), on_event=lambda _: for_ever.wait())
        with consumer:
            assert [record.ack() for record in consumer.fetch(3, expires=PATIENCE)] == [True] * 3
        assert {shard.owner for shard in consumer.info(positions=False).shards} == {None}
    finally:
        for_ever.set()


def test_on_event_may_end_the_pull_that_it_hears_of() -> None:
    begun, ended = ThreadEvent(), ThreadEvent()

    def on_event(event: Event) -> None:
        begun.wait(PATIENCE)
        if event.kind is EventKind.LEASE_ACQUIRED:
            messages.close()
            ended.set()

    consumer = Consumer("audit", "orders", account=account(), on_event=on_event)
    messages = consumer.messages()
    begun.set()
    assert ended.wait(PATIENCE)
    assert messages.closed


def test_events_come_in_their_order_and_all_of_them_before_the_block_is_left() -> None:
    world = PulledWorld()
    world.put(["a0"])
    with world.consumer(ack_wait=5 * SECOND) as consumer:
        assert consumer.next() is not None
        world.sleep(10)
        assert consumer.next() is not None
    assert [event.kind for event in world.events] == [
        EventKind.LEASE_ACQUIRED,
        EventKind.ACK_WAIT_OVER,
        EventKind.LEASE_RELEASED,
    ]
    assert world.events[1].detail == "1 of its records come again"


def test_a_slow_listener_misses_events_and_hears_how_many() -> None:
    goes_on, told = ThreadEvent(), list[Event]()

    def listens(event: Event) -> None:
        told.append(event)
        goes_on.wait(PATIENCE)

    events = SessionEvents(ThreadTasks(), listens)
    events.tell(Event(EventKind.RECONNECTED, detail="first"))
    while not told:
        pass
    for number in range(MAX_WAITING + 7):
        events.tell(Event(EventKind.THROTTLED, detail=str(number)))
    goes_on.set()
    for _ in range(PATIENCE):
        events.wait()
    assert [event.detail for event in told[:3]] == ["first", "0", "1"]
    assert told[-1] == Event(EventKind.SLOW_LISTENER, detail="7 events were left out while on_event was busy")
    assert len(told) == MAX_WAITING + 2


def test_a_listener_that_raises_gets_the_next_event() -> None:
    told: list[Event] = []

    def listens(event: Event) -> None:
        told.append(event)
        raise KeyboardInterrupt

    events = SessionEvents(ThreadTasks(), listens)
    for _ in range(2):
        events.tell(Event(EventKind.THROTTLED))
        events.wait()
    assert len(told) == 2


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_lease_is_released_when_the_table_says_so(is_answered: bool) -> None:
    world = PulledWorld()
    world.put(["a0"])
    table = RefusingTable(world.table, LeaseTableUnavailable("the network is down"))
    with world.consumer(world.ports(table=table)) as consumer:
        assert consumer.next() is not None
        table.refuses = not is_answered
    ended = world.events[-1]
    assert ended.kind is (EventKind.LEASE_RELEASED if is_answered else EventKind.LEASE_LOST)
    assert ("others may acquire it after failover_time: the network is down" in ended.detail) is not is_answered
    assert (None in world.owners) is is_answered


class Worker:
    """As many are written: it has its consumer, listens itself, and keeps what it got last."""

    def __init__(self, account: MemoryAccount) -> None:
        self.consumer = Consumer("audit", "orders", account=account, on_event=self.on_event)
        self.last: Record | None = None

    def on_event(self, event: Event) -> None: ...

    def work(self) -> None:
        with self.consumer:
            self.last = self.consumer.next(expires=PATIENCE)
            assert self.last is not None


def test_object_that_keeps_a_record_is_garbage_collected_after_its_consumer_left() -> None:
    worker = Worker(account())
    there: Any = ref(worker)
    thread = Thread(target=worker.work)  # with frames of its own, which keep nothing
    thread.start()
    thread.join()
    assert worker.last is not None
    assert worker.last.data == b"0"  # it stays whole
    del worker, thread
    gc.collect()
    assert there() is None
