"""Lease sessions of several streams that are pushed, each by a fan-out consumer of its own."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from sublet.decisions.manager.packing import WorkerItem
from sublet.engine.worker.worker import LeaseWorker
from sublet.reading.several_streams import AllPushes
from sublet.settings import Mode
from sublet.testing.memory import MemoryFanOut

from tests.doubles.several_streams import SeveralWorld

NAMES = ("orders", "payments")


class PushedWorld:
    """Windows of one worker over two streams, each with a consumer."""

    def __init__(self) -> None:
        self.world = SeveralWorld("*", *NAMES, mode=Mode.CONTINUOUS)
        self.consumers = {
            name: MemoryFanOut(stream.real, self.world.clock, self.world.tasks)
            for name, stream in self.world.streams.items()
        }
        self.world.pushes = AllPushes(lambda key: self.consumers[key.stream])
        self.world.manager().tick()
        self.items: Sequence[WorkerItem] = self.world.dispatcher.take()

    def window(self, text: str) -> set[str]:
        """Reads what is put into each stream. Returns the streams that were polled."""
        world = self.world
        for name in NAMES:
            world.put(name, text)
        world.calls.clear()
        worker = LeaseWorker(world.ports(), world.handler, world.settings)
        over = world.clock.steady() + timedelta(minutes=1)
        self.items = [worker.run_window(item, f"window-{text}", over).item for item in self.items]
        return {stream for _, what, stream in world.calls if what == "poll"}


def test_stream_is_polled_while_its_consumer_is_missing_and_pushed_again_after() -> None:
    pushed = PushedWorld()
    world = pushed.world
    assert pushed.window("1") == set()
    pushed.consumers["orders"].is_registered = False
    assert pushed.window("2") == {"orders"}
    pushed.consumers["orders"].is_registered = True
    assert pushed.window("3") == set()
    for name in NAMES:
        came = [record.data for batch in world.handler.batches if batch.stream == name for record in batch.records]
        assert came == [b"1", b"2", b"3"]
    lines = [line for line in world.log.lines if "polled instead" in line.message]
    assert [line.fields["shard_id"] for line in lines] == [world.shard("orders")]


def test_children_of_a_shard_that_is_pushed_are_leased_under_their_full_names() -> None:
    pushed = PushedWorld()
    world = pushed.world
    pushed.window("1")
    world.streams["orders"].real.split("shardId-000000000000")
    pushed.window("2")
    assert world.leases().keys() >= {
        world.shard("orders", 1),
        world.shard("orders", 2),
        world.shard("payments"),
    }
