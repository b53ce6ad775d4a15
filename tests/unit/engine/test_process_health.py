"""A process notes the faults that a fresh one would not have. What hears that it ends may ask it anything."""

from __future__ import annotations

import errno

import pytest
from sublet.decisions.session.process_end import ProcessEndReason
from sublet.engine.process_health import HungCall, ProcessHealth

from tests.doubles.engine_world import EngineWorld


@pytest.fixture
def world() -> EngineWorld:
    return EngineWorld()


def test_end_callback_may_ask_for_hung_calls(world: EngineWorld) -> None:
    """It runs without the lock: with it this would wait for itself."""
    health, told = ProcessHealth(world.ports, slots=1, is_exclusive=True), list[bool]()
    health.ends_at_once.on_set(lambda: told.append(health.is_hung("a") and len(health.hung_calls()) == 1))
    health.note_hung(HungCall("a", "a", "handle", world.clock.steady()))
    assert told == [True]
    assert health.ends_now is ProcessEndReason.ALL_SLOTS_HANG


def test_process_end_is_logged_once_and_stays(world: EngineWorld) -> None:
    health, told = ProcessHealth(world.ports, slots=1, is_exclusive=True), list[str]()
    health.ends_at_once.on_set(lambda: told.append("ended"))
    call = HungCall("a", "a", "handle", world.clock.steady())
    health.note_hung(call)
    health.note_returned(call)
    health.note(OSError(errno.EMFILE, "too many open files"))
    assert told == ["ended"]
    assert health.ends_now is ProcessEndReason.ALL_SLOTS_HANG
    assert [line.message for line in world.log.lines] == ["exiting"]
