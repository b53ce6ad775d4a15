"""Handlers that keep what only one thread may use: a record processor, a Lambda handler, and any by its setting."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from sublet import Batch
from sublet.engine.calls.call_limits import CallGuard, HandlerCall
from sublet.engine.process_health import ProcessHealth
from sublet.engine.worker.worker import LeaseWorker
from sublet.errors import SettingsError
from sublet.handlers.load import handler_of
from sublet.settings import HandlerContract, Settings
from sublet.system.threads import ThreadTasks
from sublet.testing import consume
from sublet.testing.memory import MemoryStream, memory_ports

from tests.doubles.engine_world import MINUTE, NO_WAITING, SECOND, EngineWorld

OVER = threading.Event()
"""Set at the end of each test: the other work is over."""


@pytest.fixture(autouse=True)
def over() -> Iterator[None]:
    OVER.clear()
    yield
    OVER.set()


LONG = timedelta(minutes=1)
PER_LEASE = Settings(application="orders", stream="events", handler_timeout=LONG, thread_per_lease=True)
PROCESSOR = replace(PER_LEASE, thread_per_lease=False, handler_contract=HandlerContract.RECORD_PROCESSOR)
LAMBDA = replace(PER_LEASE, thread_per_lease=False, handler_contract=HandlerContract.LAMBDA_EVENT)


@dataclass
class Guarded:
    """A guard on real threads. Each call comes from another session's thread, as in another window, and other work has
    taken the threads that were idle."""

    settings: Settings
    tasks: ThreadTasks = field(default_factory=ThreadTasks)
    guard: CallGuard = field(init=False)

    def __post_init__(self) -> None:
        ports = replace(memory_ports(MemoryStream()), tasks=self.tasks)
        self.guard = CallGuard(ports, self.settings, ProcessHealth(ports, self.settings.handler_slots))

    def call(self, lease_key: str, what: str, work: Callable[[], object] = lambda: None) -> tuple[int, HandlerCall]:
        """Returns the identity of the thread that did the work, and the call."""
        seen: list[int] = []
        made = HandlerCall(lease_key, lease_key, what)

        def do() -> None:
            seen.append(threading.get_ident())
            work()

        self.tasks.spawn(partial(OVER.wait, 60))
        session = threading.Thread(target=self.guard.make, args=(made, do, None))
        session.start()
        session.join(30)
        return seen[0], made


@pytest.mark.parametrize("settings", [PER_LEASE, PROCESSOR, replace(PER_LEASE, handler_timeout=None)])
def test_calls_for_a_lease_run_in_one_thread_until_it_is_released(settings: Settings) -> None:
    guarded = Guarded(settings)
    first, _ = guarded.call("a", "lease_acquired")
    other, _ = guarded.call("b", "lease_acquired")
    assert other != first
    assert {guarded.call("a", "handle")[0] for _ in range(20)} == {first}
    assert {guarded.call("b", "handle")[0] for _ in range(20)} == {other}


@pytest.mark.parametrize("last", ["lease_releasing", "lease_lost", "shard_ended"])
def test_a_lease_s_thread_ends_with_the_last_call_of_its_tenure(last: str) -> None:
    guarded = Guarded(PER_LEASE)
    first, _ = guarded.call("a", "lease_acquired")
    assert guarded.call("a", last)[0] == first
    local = threading.local()
    guarded.call("a", "lease_acquired", lambda: setattr(local, "session", 1))
    seen: list[bool] = []
    guarded.call("a", "handle", lambda: seen.append(hasattr(local, "session")))
    assert seen == [True]
    assert list(guarded.guard.threads._threads) == ["a"]


def test_a_lambda_handler_called_one_at_a_time_has_one_thread_for_all_leases() -> None:
    guarded = Guarded(LAMBDA)
    what = ("lease_acquired", "handle", "lease_releasing", "handle", "lease_lost")
    assert len({guarded.call(lease, each)[0] for each in what for lease in "abc"}) == 1


def test_a_record_processor_may_keep_an_sqlite_connection() -> None:
    guarded, kept = Guarded(PROCESSOR), list[sqlite3.Connection]()
    guarded.call("a", "lease_acquired", lambda: kept.append(sqlite3.connect(":memory:")))
    calls = [guarded.call("a", "handle", lambda: kept[0].execute("SELECT 1"))[1] for _ in range(5)]
    guarded.call("a", "lease_releasing", kept[0].close)
    assert [call.failure for call in calls] == [None] * 5


def test_a_call_that_hangs_keeps_its_thread_and_the_next_one_gets_another() -> None:
    guarded, held = Guarded(replace(PER_LEASE, handler_timeout=timedelta(seconds=1))), threading.Event()
    hung, call = guarded.call("a", "handle", partial(held.wait, 60))
    assert call.is_given_up
    assert guarded.call("a", "lease_lost")[0] != hung
    held.set()


def test_thread_per_lease_is_refused_with_a_parallelization_factor() -> None:
    with pytest.raises(SettingsError, match="thread_per_lease"):
        replace(PER_LEASE, parallelization_factor=2)


def test_the_engine_consumes_with_a_thread_for_each_lease() -> None:
    world = EngineWorld(replace(NO_WAITING, handler_timeout=20 * SECOND, thread_per_lease=True), shards=2)
    threads: dict[str, set[int]] = {}

    def script(batch: Batch) -> None:
        threads.setdefault(batch.shard_id, set()).add(threading.get_ident())

    world.handler.script = script
    for round_ in range(3):
        for shard in range(2):
            world.put(f"{round_}/{shard}", shard=shard, of=2)
        world.window(lasts=5 * MINUTE)
    assert len(world.handler.data("shardId-000000000000")) == 3
    assert len(world.handler.data("shardId-000000000001")) == 3


def on_batch(_: Batch) -> None:
    """Has none of the functions that are called after a lease's last batch."""


def test_no_thread_is_kept_for_a_released_lease_whose_handler_has_only_handle() -> None:
    settings = replace(NO_WAITING, handler_timeout=20 * SECOND, thread_per_lease=True)
    world = EngineWorld(settings)
    worker = LeaseWorker(world.ports, handler_of(on_batch, settings), settings)
    world.put("1")
    world.window(lasts=5 * MINUTE, worker=worker)
    assert worker._shared.guard.threads._threads == {}


def test_the_thread_of_all_leases_ends_when_no_more_windows_will_run() -> None:
    guarded = Guarded(LAMBDA)
    guarded.call("a", "handle")
    guarded.guard.threads.close()
    assert guarded.guard.threads._threads == {}


@pytest.mark.parametrize("settings", [{"handler_contract": "lambda_event"}, {"thread_per_lease": True}])
def test_a_test_s_consumer_leaves_no_thread(settings: dict[str, Any]) -> None:
    def handle(batch: Batch) -> None: ...

    def lambda_handler(event: object, context: object) -> None: ...

    handler = lambda_handler if "handler_contract" in settings else handle
    before = set(threading.enumerate())
    for _ in range(3):
        consume(handler, [b"1", b"2"], shards=2, **settings)
    for thread in set(threading.enumerate()) - before:
        thread.join(20)
        assert not thread.is_alive()
