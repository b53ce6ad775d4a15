"""Looking in the background: a failed look is shown and repeated, and an application without visits is forgotten."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from threading import Event, Lock
from time import monotonic, sleep
from typing import Any

from sublet.operate.console.watching import FORGOTTEN_AFTER
from sublet.operate.rules.last_hour import RecordedHour, by_minute
from sublet.protocol.lease import LeaseScan
from sublet.testing.memory import FakeClock

from tests.doubles.console_world import ConsoleWorld


def test_unknown_application_is_not_watched() -> None:
    watching = ConsoleWorld().console.watching
    assert watching.seen("other") is None
    assert watching.opened("other") is None
    assert watching.look("other") is None
    assert watching.glance("other").problem == "it is gone"


def test_failed_look_keeps_the_last_status_and_the_next_look_recovers() -> None:
    world = ConsoleWorld()
    watching = world.console.watching
    first = watching.look("orders")
    assert first is not None
    assert first.status is not None
    real, world.orders.table.scan = world.orders.table.scan, broken  # type: ignore[method-assign]
    failed = watching.look("orders")
    assert failed is not None
    assert failed.problem == "an error of sublet: ZeroDivisionError"
    assert failed.status == first.status
    assert set(world.log.messages("error")) == {"console refresh failed"}  # the background may have looked too
    world.orders.table.scan = real  # type: ignore[method-assign]
    again = watching.look("orders")
    assert again is not None
    assert not again.problem


def test_the_page_and_the_background_look_at_an_application_one_after_the_other() -> None:
    """Each look adds to what the one before it found, and CloudWatch charges for each question."""
    world = ConsoleWorld()
    real, inside, second, met = world.orders.table.scan, Lock(), Event(), list[bool]()

    def scan() -> LeaseScan:
        is_first = inside.acquire(blocking=False)
        met.append(not is_first)
        second.wait(0.1) if is_first else second.set()
        if is_first:
            inside.release()
        return real()

    world.orders.table.scan = scan  # type: ignore[method-assign]
    seen = world.console.watching.look("orders")
    assert seen is not None
    assert seen.status is not None
    assert met
    assert not any(met)


def broken() -> LeaseScan:
    raise ZeroDivisionError


def test_the_last_hour_is_kept_from_look_to_look() -> None:
    world = ConsoleWorld()
    assert isinstance(world.clock, FakeClock)
    for _ in range(3):
        seen = world.console.watching.look("orders")
        world.clock.advance(timedelta(minutes=1))
    assert seen is not None
    assert by_minute(seen.hour.lags, world.clock.now())[-4:] == [0.0, 0.0, 0.0, None]


def test_cloudwatch_is_asked_while_the_page_is_open_and_no_longer() -> None:
    world = ConsoleWorld()
    assert isinstance(world.clock, FakeClock)
    asked: list[datetime] = []

    class Asked:
        def last_hour(self) -> RecordedHour:
            asked.append(world.clock.now())
            return RecordedHour({world.clock.now() - timedelta(minutes=30): 90.0})

    asking: Any = Asked()
    world.orders.opened = replace(world.orders.opened, inspection=asking)
    watching = world.console.watching
    watched = watching.look("orders")
    assert watched is not None
    assert by_minute(watched.hour.lags, world.clock.now())[29] == 90.0
    before = len(asked)
    world.clock.advance(timedelta(hours=1))
    watching._look(watching._watched["orders"])
    assert len(asked) == before
    watching.look("orders")
    assert len(asked) > before


def test_application_is_forgotten_when_it_is_not_visited() -> None:
    world = ConsoleWorld()
    watching = world.console.watching
    opened = watching.opened("orders")
    assert watching.opened("orders") is opened
    assert isinstance(world.clock, FakeClock)
    world.clock.advance(FORGOTTEN_AFTER + timedelta(minutes=1))
    world.orders.without_control()
    watching.look_soon("orders")
    deadline = monotonic() + 10
    while watching.is_watched("orders"):
        assert monotonic() < deadline
        sleep(0.01)
    assert watching.opened("orders") is world.orders.opened


def test_stopping_ends_every_thread() -> None:
    world = ConsoleWorld("orders", "billing")
    for name in world.applications:
        world.console.watching.opened(name)
    world.console.watching.stop()
    deadline = monotonic() + 10
    while any(world.console.watching.is_watched(name) for name in world.applications):
        assert monotonic() < deadline
        sleep(0.01)
