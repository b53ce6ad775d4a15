"""Whose leases these are: another stream, and this one created again, are refused by name before anything is
written.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from sublet.engine.manager.adoption import adopt_stream
from sublet.engine.manager.tick import LeaseManager
from sublet.errors import StreamAccessDenied, StreamNotAdopted
from sublet.protocol.checkpoint import SHARD_END, Checkpoint
from sublet.protocol.lease import Lease
from sublet.protocol.shard import HASH_KEY_MAX, HashKeyRange
from sublet.protocol.stream_identity import StreamIdentity
from sublet.testing.memory import MemorySightingStore, MemoryStream

from tests.doubles.engine_world import SECOND, SHARD, EngineWorld, lease_of

UNLISTED = "shardId-000000000009"


def manager_on(world: EngineWorld, stream: MemoryStream) -> LeaseManager:
    """Of the same application, on another stream."""
    settings = replace(world.settings, stream=stream.name)
    return LeaseManager(replace(world.ports, stream=stream), world.dispatcher, settings)


def lease_of_unlisted(checkpoint: Checkpoint) -> Lease:
    return Lease(UNLISTED, checkpoint, hash_key_range=HashKeyRange(0, HASH_KEY_MAX))


def test_another_stream_is_refused_before_anything_is_written() -> None:
    world = EngineWorld(shards=2)
    world.shards.split(SHARD)
    world.manager().tick()
    before, seen = world.table.real.rows(), world.sightings.load()
    with pytest.raises(StreamNotAdopted, match=r"stream/events, created .*stream/invoices, created .* --adopt"):
        manager_on(world, MemoryStream(2, clock=world.clock, name="invoices")).tick()
    assert (world.table.real.rows(), world.sightings.load()) == (before, seen)


def test_a_stream_created_again_under_its_name_is_refused() -> None:
    world = EngineWorld(leases=False)
    world.manager().tick()
    world.clock.advance(timedelta(hours=1))
    with pytest.raises(StreamNotAdopted):
        manager_on(world, MemoryStream(clock=world.clock, name="events")).tick()


def test_recreated_stream_is_refused_despite_a_remembered_description() -> None:
    """No checkpoint of the old stream fits a shard of the new one: its sequence numbers begin later."""
    world = EngineWorld(leases=False)
    (shard,) = world.shards.list_shards()
    world.put_lease(lease_of(shard, Checkpoint(shard.starting_sequence_number)))
    world.manager().tick()
    world.clock.advance(timedelta(minutes=1))
    with pytest.raises(StreamNotAdopted):
        manager_on(world, MemoryStream(clock=world.clock, name="events")).tick()


def test_stream_is_described_a_few_times_when_200_processes_join_in_a_minute() -> None:
    """An account may describe its streams 20 times a second, for all their consumers together."""
    world = EngineWorld()
    asked: list[datetime] = []
    world.stream.disturb_identity = lambda: asked.append(world.clock.now())
    for _ in range(200):
        world.manager().tick()
        world.clock.advance(timedelta(milliseconds=300))
    assert 1 <= len(asked) <= 10
    world.clock.advance(timedelta(minutes=5))
    world.manager().tick()
    assert asked[-1] == world.clock.now(), "it is not believed for ever"


def test_adopting_on_purpose_accepts_the_stream() -> None:
    world = EngineWorld(leases=False)
    world.manager().tick()
    manager = manager_on(world, MemoryStream(clock=world.clock, name="invoices"))
    adopt_stream(manager.ports)
    assert [m for m in world.log.messages("warning") if m.startswith("stream adopted")] != []
    manager.tick()
    with pytest.raises(StreamNotAdopted):
        world.manager().tick()


def test_leases_of_shards_that_the_stream_does_not_have_are_not_adopted() -> None:
    """A KCL table says nothing of its stream."""
    world = EngineWorld()
    world.put_lease(lease_of_unlisted(Checkpoint("7")))
    before = world.table.real.rows()
    with pytest.raises(StreamNotAdopted, match=f"lease {UNLISTED} .* has no such shard"):
        world.manager().tick()
    assert (world.table.real.rows(), world.sightings.load().stream) == (before, None)


def test_a_checkpoint_from_before_its_shard_began_is_not_adopted() -> None:
    world = EngineWorld(leases=False)
    (shard,) = world.shards.list_shards()
    world.put_lease(lease_of(shard, Checkpoint(str(int(shard.starting_sequence_number) - 1))))
    with pytest.raises(StreamNotAdopted, match="older than that shard"):
        world.manager().tick()


def test_a_kcl_table_of_this_stream_is_adopted() -> None:
    """Though a listing that lags leaves a shard out, and Kinesis has forgotten a shard that was read to its end."""
    world = EngineWorld(shards=2, leases=False)
    first, second = world.shards.list_shards()
    world.put_lease(lease_of(first, Checkpoint(first.starting_sequence_number)))
    world.put_lease(lease_of(second))
    world.put_lease(replace(lease_of_unlisted(SHARD_END), child_shard_ids=frozenset({first.shard_id})))
    world.put_lease(replace(lease_of(first), lease_key="shardId-000000000007"))
    world.stream.unlisted.add("shardId-000000000007")
    world.manager().tick()
    assert world.sightings.load().stream == world.shards.describe().identity
    (line,) = [line for line in world.log.lines if "belong to this stream from now on" in line.message]
    assert line.fields == {"stream": str(world.shards.describe().identity)}


def test_a_role_that_may_not_ask_goes_on_and_says_so() -> None:
    world = EngineWorld()
    world.stream.disturb_identity = _denied
    world.manager().tick()
    assert "unknown whether the leases belong to this stream" in [line.message for line in world.log.lines]
    assert world.dispatcher.items


def test_first_tick_is_refused_when_another_adopted_another_stream_meanwhile() -> None:
    """Both have looked before either has adopted."""
    world = EngineWorld(leases=False)

    class Slow(MemorySightingStore):
        def adopt(self, stream: StreamIdentity, instead_of: StreamIdentity | None) -> bool:
            super().adopt(StreamIdentity("arn:another", stream.created_at + SECOND), None)
            return super().adopt(stream, instead_of)

    world.sightings = Slow()
    with pytest.raises(StreamNotAdopted, match="arn:another"):
        world.manager().tick()


def _denied() -> None:
    raise StreamAccessDenied("DescribeStreamSummary")
