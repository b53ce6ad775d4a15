"""The Tasks port over threads."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from datetime import timedelta
from types import FrameType
from typing import Any

import pytest
from sublet.ports import Tasks
from sublet.system.threads import ThreadTasks

TraceFunction = Callable[[FrameType, str, Any], Any]

LONG = timedelta(seconds=30)
"""Never waited out: a test that comes to it fails by its own assertion."""


@pytest.fixture
def tasks() -> Tasks:
    return ThreadTasks()


def test_tasks_run_beside_the_caller_and_give_their_values(tasks: Tasks) -> None:
    go = tasks.signal()
    task = tasks.spawn(lambda: "late" if go.wait(LONG) else "alone")
    go.set()
    assert task.result() == "late"
    assert task.result() == "late"


def test_tasks_exception_is_raised_by_its_result(tasks: Tasks) -> None:
    def fail() -> None:
        raise LookupError("this one")

    task = tasks.spawn(fail)
    with pytest.raises(LookupError, match="this one"):
        task.result()


def test_a_thread_would_not_keep_the_process() -> None:
    tasks = ThreadTasks()
    assert tasks.spawn(lambda: threading.current_thread().daemon).result()


def test_a_thread_whose_task_is_done_runs_the_next_one() -> None:
    tasks = ThreadTasks()
    assert len({tasks.spawn(threading.get_ident).result() for _ in range(20)}) == 1


def test_a_thread_at_work_is_given_nothing_else() -> None:
    tasks, together = ThreadTasks(), threading.Barrier(5)
    running = [tasks.spawn(lambda: together.wait(LONG.total_seconds())) for _ in range(5)]
    assert sorted(task.result() for task in running) == list(range(5))


def test_a_thread_that_failed_goes_on() -> None:
    tasks = ThreadTasks()
    before = tasks.spawn(threading.get_ident).result()
    with pytest.raises(ZeroDivisionError):
        tasks.spawn(lambda: 1 // 0).result()
    assert tasks.spawn(threading.get_ident).result() == before


def test_no_idle_thread_is_left_for_long() -> None:
    tasks = ThreadTasks(idle_seconds=0.0)
    threads = {tasks.spawn(threading.current_thread).result() for _ in range(20)}
    for thread in threads:
        thread.join(LONG.total_seconds())
        assert not thread.is_alive()


def test_an_idle_thread_holds_nothing_of_its_last_task() -> None:
    class Held:
        pass

    tasks = ThreadTasks(idle_seconds=2 * LONG.total_seconds())
    task = tasks.spawn(Held)
    gone = threading.Event()
    weakref.finalize(task.result(), gone.set)
    del task
    assert gone.wait(LONG.total_seconds())


def test_a_lock_lets_one_in(tasks: Tasks) -> None:
    lock, held, left = tasks.lock(), tasks.signal(), tasks.signal()
    order: list[str] = []

    def first() -> None:
        with lock:
            held.set()
            left.wait(timedelta(milliseconds=50))
            order.append("first")

    task = tasks.spawn(first)
    assert held.wait(LONG)
    with lock:
        order.append("second")
    task.result()
    assert order == ["first", "second"]


def test_slots_let_as_many_in_as_there_are(tasks: Tasks) -> None:
    slots, both_in = tasks.slots(2), threading.Barrier(2)

    def enter() -> int:
        with slots:
            return both_in.wait(LONG.total_seconds())

    assert sorted(task.result() for task in [tasks.spawn(enter), tasks.spawn(enter)]) == [0, 1]


def test_a_signal_wakes_its_waiters_and_stays_set(tasks: Tasks) -> None:
    signal = tasks.signal()
    assert not signal.is_set()
    assert not signal.wait(timedelta(0))
    assert not signal.wait(timedelta(seconds=-1))
    signal.set()
    assert signal.is_set()
    assert signal.wait(LONG)


def test_signal_callback_runs_once_and_not_after_removal(
    tasks: Tasks,
) -> None:
    signal, done = tasks.signal(), list[str]()
    signal.on_set(lambda: done.append("first"))
    take_back = signal.on_set(lambda: done.append("taken back"))
    other = tasks.signal()
    signal.on_set(other.set)
    take_back()
    assert done == []
    signal.set()
    signal.set()
    assert done == ["first"]
    assert other.is_set()
    signal.on_set(lambda: done.append("late"))()
    assert done == ["first", "late"]


def test_a_signal_handler_may_set_a_signal_in_the_midst_of_waiting_for_it() -> None:
    """At each line of the wait in turn, as far as there are any."""
    signals = [ThreadTasks().signal() for _ in range(40)]
    seen: list[bool] = []

    def wait() -> None:
        for at, signal in enumerate(signals):
            sys.settrace(at_line(at, signal.set))
            try:
                seen.append(signal.wait(timedelta(0)))
            finally:
                sys.settrace(None)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    thread.join(LONG.total_seconds())
    assert len(seen) == len(signals)
    assert seen[0]
    assert not seen[-1]


def at_line(number: int, act: Callable[[], None]) -> TraceFunction:
    """Traces whatever is called until then."""
    left = [number]

    def trace(_frame: FrameType, event: str, _arg: object) -> TraceFunction:
        if event == "line":
            left[0] -= 1
            if left[0] == -1:
                act()
        return trace

    return trace
