"""Handlers' coroutines share one event loop, and what ends one of them ends no other."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest
from sublet.call_turn import TURN, CallTurn
from sublet.decisions.session.window import SessionOutcome
from sublet.errors import HandlerOverdue
from sublet.handler import Batch
from sublet.handlers.contract import finished
from sublet.handlers.event_loop import EventLoop
from sublet.handlers.load import handler_of
from sublet.testing import consume

from tests.doubles.engine_world import CONTINUOUS, EngineWorld, outcomes


async def loop_and_thread() -> tuple[object, int]:
    await asyncio.sleep(0)
    return asyncio.get_running_loop(), threading.get_ident()


def test_async_calls_share_one_loop_in_a_thread_of_its_own() -> None:
    first, second = finished(loop_and_thread()), finished(loop_and_thread())
    assert first == second
    assert isinstance(first, tuple)
    assert first[1] != threading.get_ident()


AFTER_A_FORK = """
import asyncio, os
from sublet.handlers.contract import finished

async def value():
    await asyncio.sleep(0)
    return 7

assert finished(value()) == 7
child = os.fork()
if not child:
    os._exit(finished(value()))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert finished(value()) == 7
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_has_a_loop_of_its_own() -> None:
    """The parent's thread is not there: a call would wait for ever."""
    ended = subprocess.run(
        [sys.executable, "-c", AFTER_A_FORK], timeout=60, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr


def test_a_plain_value_is_passed_on() -> None:
    assert finished(5) == 5
    assert finished(None) is None


async def value_of(future: asyncio.Future[str]) -> str:
    return await future


def test_calls_of_several_threads_run_side_by_side() -> None:
    """Each waits for the other: one after the other neither would end."""
    loop = EventLoop()
    events: list[asyncio.Event] = []

    async def make() -> None:
        events.extend([asyncio.Event(), asyncio.Event()])

    loop.result_of(make())

    async def meet(mine: int) -> str:
        events[mine].set()
        await events[1 - mine].wait()
        return f"met {mine}"

    met: list[object] = []
    threads = [threading.Thread(target=lambda mine=mine: met.append(loop.result_of(meet(mine)))) for mine in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(map(str, met)) == ["met 0", "met 1"]


async def cancelled_by_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def cancels_all() -> None:
    for task in asyncio.all_tasks():
        task.cancel()
    await asyncio.sleep(0)


async def exits() -> None:
    raise SystemExit(3)


async def interrupted() -> None:
    raise KeyboardInterrupt


async def has_a_task_that_exits() -> None:
    await asyncio.create_task(exits())


async def leaves_a_task_that_exits() -> None:
    task = asyncio.create_task(exits())
    task.add_done_callback(lambda done: done.exception())
    await asyncio.sleep(0)
    raise ValueError("after it")


async def stops_the_loop() -> None:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0)
    raise ValueError("stopped")


@pytest.mark.parametrize(
    ("coroutine", "raised"),
    [
        (cancelled_by_itself, asyncio.CancelledError),
        (cancels_all, asyncio.CancelledError),
        (exits, SystemExit),
        (interrupted, KeyboardInterrupt),
        (has_a_task_that_exits, SystemExit),
        (leaves_a_task_that_exits, ValueError),
        (stops_the_loop, ValueError),
    ],
)
@pytest.mark.filterwarnings("ignore:.*:pytest.PytestUnraisableExceptionWarning")
def test_event_loop_goes_on_after_a_call_that_exits_or_is_cancelled(
    coroutine: Callable[[], object], raised: type[BaseException]
) -> None:
    before = finished(loop_and_thread())
    with pytest.raises(raised):
        finished(coroutine())
    assert finished(loop_and_thread()) == before


FAULTS = [asyncio.CancelledError, SystemExit, KeyboardInterrupt, GeneratorExit]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_exiting_call_fails_its_own_batch_and_other_leases_go_on(fault: type[BaseException], is_async: bool) -> None:
    world = EngineWorld(replace(CONTINUOUS, handler_attempts=1), shards=2)
    world.put("a", shard=0, of=2)
    world.put("b", shard=1, of=2)
    poisoned = world.shards.list_shards()[0].shard_id

    def fail(batch: Batch) -> None:
        if batch.shard_id == poisoned:
            raise fault

    async def fail_later(batch: Batch) -> None:
        await asyncio.sleep(0)
        fail(batch)

    world.handler.script = handler_of(fail_later if is_async else fail).handle
    found = outcomes(world.window())
    assert found.pop(poisoned) is SessionOutcome.HANDLER_FAILED
    assert set(found.values()) == {SessionOutcome.WINDOW_ENDED}
    assert world.handler.data() == [b"b"]


def test_handler_concurrency_bounds_coroutines_of_all_windows_of_a_process() -> None:
    """One lease worker, whose windows run side by side."""
    world = EngineWorld(replace(CONTINUOUS, handler_concurrency=2), shards=4)
    for shard in range(4):
        world.put("a", shard=shard, of=4)
    inside, most = 0, 0

    def script(batch: Batch) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        world.tasks.sleep(world.settings.handler_backoff)
        inside -= 1

    world.handler.script = script
    worker = world.worker()
    keys = sorted(shard.shard_id for shard in world.shards.list_shards())
    deadline = world.clock.steady() + world.settings.handler_backoff * 30
    items = [world.item(*pair, item_id=pair[0]) for pair in (keys[:2], keys[2:])]
    windows = [world.tasks.spawn(partial(worker.run_window, item, "invocation", deadline)) for item in items]
    for window in windows:
        window.result()
    assert most == 2


def test_an_async_handler_checkpoints_within_its_batch() -> None:
    seen: list[list[bytes]] = []

    async def handle(batch: Batch) -> None:
        await asyncio.sleep(0)
        seen.append([record.data for record in batch.records])
        if len(seen) == 1:
            batch.checkpoint(batch.records[1])
            raise ValueError("the third fails")

    consume(handle, [b"a", b"b", b"c"])
    assert seen == [[b"a", b"b", b"c"], [b"c"]]


def test_optional_functions_may_be_async() -> None:
    calls: list[str] = []

    class Kept:
        async def lease_acquired(self, shard_id: str, checkpoint: object) -> None:
            calls.append(f"acquired {shard_id[-1]} at {checkpoint}")

        async def handle(self, batch: Batch) -> None:
            calls.append(f"handle {len(batch.records)}")

        async def lease_releasing(self, shard_id: str) -> None:
            calls.append(f"releasing {shard_id[-1]}")

    consume(Kept(), [b"a"])
    assert calls == ["acquired 0 at TRIM_HORIZON", "handle 1", "releasing 0"]


class Waiting(CallTurn):
    """Tells when it waits for the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = threading.Event()

    def wait(self, is_held_up: Callable[[], bool]) -> None:
        super().wait(is_held_up)
        self.waits.set()


class Calls:
    """Calls on one loop, each from a thread and with a turn of its own."""

    def __init__(self) -> None:
        self.loop = EventLoop()
        self._threads: list[threading.Thread] = []

    def make(self, coroutine: Coroutine[object, object, None]) -> CallTurn:
        turn = Waiting()

        def call() -> None:
            TURN.set(turn)
            with suppress(HandlerOverdue):
                self.loop.result_of(coroutine)

        self._threads.append(threading.Thread(target=call))
        self._threads[-1].start()
        assert turn.waits.wait(10)
        return turn

    def join(self) -> None:
        for thread in self._threads:
            thread.join(10)


async def awaits(began: threading.Event, until: asyncio.Event) -> None:
    began.set()
    await until.wait()


async def blocks(began: threading.Event, until: threading.Event) -> None:
    began.set()
    until.wait(30)


def test_call_that_blocks_the_event_loop_is_blamed_alone() -> None:
    calls, goes_on, ends = Calls(), threading.Event(), asyncio.Event()
    began, blocked, late = threading.Event(), threading.Event(), threading.Event()
    waiting = calls.make(awaits(began, ends))
    assert began.wait(10)
    blocking = calls.make(blocks(blocked, goes_on))
    assert blocked.wait(10)
    never_begun = calls.make(awaits(late, ends))

    assert not blocking.give_up()
    assert waiting.give_up()
    assert never_begun.give_up()
    goes_on.set()

    async def end() -> None:
        ends.set()

    calls.loop.result_of(end())
    calls.join()
    assert not late.is_set(), "what was given up before it began never begins"


def test_a_call_that_awaits_too_long_while_the_loop_goes_round_is_to_blame_itself() -> None:
    calls, began, ends = Calls(), threading.Event(), asyncio.Event()
    waiting = calls.make(awaits(began, ends))
    assert began.wait(10)
    assert not waiting.give_up()

    async def end() -> None:
        ends.set()

    calls.loop.result_of(end())
    calls.join()
