"""Ctrl-C between any two lines of the buffer's own code: a program that continues with the same consumer gets every
record.
"""

from __future__ import annotations

import pytest
from sublet.pull.prefetch import Delivery
from sublet.pull.pull_state import PullRequest
from sublet.pull.record import Record
from sublet.pull.refill import BufferLimits
from sublet.pull.subscription import Records

from tests.doubles.buffer_world import MINUTE, BufferWorld
from tests.doubles.interrupting import interrupted
from tests.doubles.pulled import SECOND, PulledWorld
from tests.exploring import explores

DATA = [f"{key}{number}" for number in range(3) for key in "abc"]
LIMITS = BufferLimits(max_ack_pending=6, max_bytes=20, ack_wait=MINUTE)


def say(world: BufferWorld, one: Delivery, done: set[str]) -> None:
    """Ack some; nak others first; ignore others the first time."""
    record = one.record.data.decode()
    if record in ("a1", "b2", "c0") and one.times == 1:
        world.buffer.nak(one, 5 * (record == "b2"))
    elif record == "b1" and one.times == 1:
        world.buffer.in_progress(one)
    elif record not in ("c2", "b1") or one.times > 1:
        done.add(record)  # it may be done even if the answer was interrupted
        world.buffer.ack(one)


def goes_on(world: BufferWorld, pull: PullRequest, done: set[str]) -> None:
    while isinstance(one := world.buffer.take(pull, None), Delivery):
        say(world, one, done)
        while pull.prefetched:
            say(world, pull.prefetched.popleft(), done)


def pulled(at: int | None) -> tuple[BufferWorld, set[str], int]:
    """Runs a program that is interrupted at the nth line and goes on. Returns what it has done."""
    world, done = BufferWorld(LIMITS), set[str]()
    world.offer("first", *DATA)
    world.offer("second", "d0", "d1")
    pull = world.messages(max_records=4)
    with interrupted(at) as interrupting:
        for _ in range(3):
            goes_on(world, pull, done)
            world.tasks.sleep(30 * SECOND)
    for _ in range(8):
        goes_on(world, pull, done)
        world.tasks.sleep(30 * SECOND)
    world.buffer.checkpoint()
    return world, done, interrupting.ran


@pytest.mark.parametrize("step", [13, pytest.param(1, marks=explores)])
def test_interrupted_pull_finishes_and_checkpoints_every_record(step: int) -> None:
    _, _, lines = pulled(None)
    assert lines > 500
    for at in range(1, lines, step):
        world, done, _ = pulled(at)
        assert done == {*DATA, "d0", "d1"}, f"interrupted at line {at}"
        assert world.checkpointed == {"first": DATA[-1], "second": "d1"}, f"interrupted at line {at}"
        assert world.buffer._state.totals.unfinished_bytes == 0, f"interrupted at line {at}"


@pytest.mark.parametrize("step", [13, pytest.param(1, marks=explores)])
@pytest.mark.parametrize("auto_ack", [False, True])
def test_record_lost_to_an_interrupt_is_delivered_again(auto_ack: bool, step: int) -> None:
    """With `auto_ack` too: to ask for the next record says nothing of one that never came."""
    for at in range(1, 200, step):
        seen: list[Record] = []
        world = PulledWorld()
        world.put(DATA)
        with world.consumer(ack_wait=5 * SECOND) as consumer:
            messages = consumer.messages(auto_ack=auto_ack)
            world.sleep(1)
            world.put_later(20, ["last"])
            with interrupted(at):
                take(messages, seen, auto_ack)
            take(messages, seen, auto_ack)
        assert {record.data.decode() for record in seen} == {*DATA, "last"}, f"interrupted at line {at}"


def take(messages: Records, seen: list[Record], auto_ack: bool) -> None:
    """Until the last one, or an interrupt."""
    while not seen or seen[-1].data != b"last":
        seen.append(next(messages))
        if not auto_ack:
            seen[-1].ack()
