"""A stream that is deleted under its workers and created again, with the same name and shard ids: none of its records
may be handled, and nothing written, until an operator adopts it.

It is gone for a while, as the service takes its time for either, so that pollers meet that too.
"""

from __future__ import annotations

from sublet.testing.memory import MemoryStream
from sublet.testing.simulation.scheduler import SECOND
from sublet.testing.simulation.world import World

BEFORE = 100 * SECOND
"""Time without faults, so that paused processes wake up."""
GONE_FOR = 60 * SECOND
SEEN_FOR = 300 * SECOND
BETWEEN_PUTS = 5 * SECOND


def see_replaced(world: World) -> str | None:
    """Says what is wrong at the end. A handler call with one of the old stream's records, or a write by a tick, ends
    the world before that.
    """
    scheduler = world.scheduler
    scheduler.run_until(scheduler.now_us + BEFORE)
    shards = len(world.stream.logs)
    world.note("operator", "deletes the stream")
    world.stream.delete()
    scheduler.run_until(scheduler.now_us + GONE_FOR)
    world.note("operator", "creates it again")
    world.is_replaced = True
    world.stream = MemoryStream(shards, clock=scheduler)
    for number in range(SEEN_FOR // BETWEEN_PUTS):
        for place in range(4 * shards):
            world.stream.put(f"key-{number}-{place}", b"1")
        scheduler.run_until(scheduler.now_us + BETWEEN_PUTS)
    begins = min(int(log.shard().starting_sequence_number) for log in world.stream.logs)
    for key, checkpoint in world.watch.checkpoints.items():
        if checkpoint.is_sequence_number and int(checkpoint.sequence_number) >= begins:
            return f"{key} is checkpointed at {checkpoint}, which is another stream's"
    return None
