"""Looking at hot shards, and waiting for a stream between two changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec.structs import replace as replaced
from sublet.decisions.load.resharding import Split
from sublet.errors import StreamError
from sublet.operate.hot_shards import look, reshard, stored_sketches
from sublet.operate.rules.hot_shards import HeatVerdict
from sublet.ports.account import Account
from sublet.settings import Settings
from sublet.testing.memory import memory_ports
from sublet.testing.memory.account import MemoryAccount
from sublet.testing.memory.clock import FakeClock
from sublet.testing.memory.stores import MemorySketchStore
from sublet.testing.turn_taking import TurnTaking

from tests.doubles.traffic import NOW, Traffic, sketch_of

SHARD = "shardId-000000000000"
SETTINGS = Settings(application="audit", stream="orders")


def of_memory() -> Account:
    account = MemoryAccount()
    account.create("orders", 1)
    return account


def test_a_stream_that_stays_busy_is_not_waited_for_without_end() -> None:
    class Busy:
        """Its stream is UPDATING for ever."""

        def __init__(self) -> None:
            self.clock = FakeClock()
            self.tasks = TurnTaking(self.clock)
            self.real = of_memory()

        def change(self, stream: str, change: object) -> None: ...

        def info(self, stream: str) -> object:
            return replaced(self.real.info(stream), status="UPDATING")

    account = Busy()
    with pytest.raises(StreamError, match="still not ACTIVE"):
        list(reshard("orders", [Split(SHARD, 9)], account))  # type: ignore[arg-type]


def test_the_stored_sketch_explains_the_shard() -> None:
    account, clock = of_memory(), FakeClock(NOW)
    store = MemorySketchStore(with_names=True)
    store.keep(sketch_of(SHARD, [Traffic("big", 950, 1000)], seconds=10))
    ports = replace(memory_ports(account.reading("orders"), clock=clock), sketches=store)
    [hot] = look(SETTINGS, ports, account, stored_sketches(ports))
    assert (hot.verdict, hot.keys[0].name) == (HeatVerdict.ONE_KEY, "big")
    assert stored_sketches(replace(ports, sketches=None)) == {}


def test_a_shard_of_another_stream_with_the_same_id_is_not_meant() -> None:
    account, clock = of_memory(), FakeClock(NOW)
    ports = memory_ports(account.reading("orders"), clock=clock)
    theirs = sketch_of(f"123456789012:clicks:1700000000:{SHARD}", [Traffic("big", 950, 1000)], seconds=10)
    ours = replaced(theirs, shard_id=f"123456789012:orders:1700000000:{SHARD}")
    assert not look(SETTINGS, ports, account, {theirs.shard_id: theirs})[0].is_hot
    [hot] = look(SETTINGS, ports, account, {each.shard_id: each for each in (ours, theirs)})
    assert (hot.shard_id, hot.verdict) == (SHARD, HeatVerdict.ONE_KEY)
