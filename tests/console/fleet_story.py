"""An hour of a fleet in which each word occurs, on a memory clock, for the pictures and the tests of pages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from math import sin

from msgspec.structs import replace
from sublet.protocol.checkpoint import TRIM_HORIZON, Checkpoint
from sublet.protocol.handler_failure import HandlerFailure
from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import encode_row
from sublet.protocol.shard import HashKeyRange, Shard
from sublet.testing.memory import FakeClock

from tests.doubles.console_world import ConsoleWorld, MemoryApplication
from tests.doubles.traffic import Traffic, sketch_of

MINUTES = 60
WORKERS = ("orders-lambda-0", "orders-lambda-1", "ip-10-0-3-17:4f1c", "ip-10-0-4-92:9ab0")
STALLED, STOPPED, BEHIND, REWOUND, FAILING, SPLIT = 3, 7, 11, 14, 16, 5
HOT = 9


def lag_of(shard: int, minute: int) -> int:
    """How many minutes behind a shard is, at a minute of the hour."""
    if shard in (STALLED, FAILING):
        return max(0, minute - 38)
    if shard == STOPPED:
        return max(0, minute - 22)
    if shard == BEHIND:
        return 2 + minute // 6
    if shard == REWOUND:
        return 0 if minute < 52 else 34 - 2 * (minute - 52)
    return round(max(0.0, 2.4 * sin(minute / 2 + shard)))


@dataclass
class FleetStory:
    """`application` over its hour. Each shard gets a record a minute."""

    application: MemoryApplication
    clock: FakeClock

    def __post_init__(self) -> None:
        self.numbers: dict[str, list[str]] = {}
        self.counters: dict[str, int] = {}

    def minute(self, minute: int) -> None:
        stream = self.application.stream
        if minute == MINUTES - 2:
            stream.split(f"shardId-{SPLIT:012}")
        for shard in stream.list_shards():
            index = int(shard.shard_id[-12:])
            if shard.is_open:
                number = stream.put(f"customer-{index}", payload(index, minute), shard.hash_key_range.starting)
                self.numbers.setdefault(shard.shard_id, []).append(number)
            self.write(index, shard, minute)
        self.clock.advance(timedelta(minutes=1))

    def write(self, index: int, shard: Shard, minute: int) -> None:
        shard_id, lag = shard.shard_id, lag_of(index, minute)
        is_child = bool(shard.parent_shard_ids)
        numbers = self.numbers.get(shard_id, [])
        owner = None if is_child else WORKERS[index % len(WORKERS)]
        if index == STOPPED and minute > 22:
            return
        checkpoint = TRIM_HORIZON if is_child or len(numbers) <= lag else Checkpoint(numbers[-1 - lag])
        self.counters[shard_id] = self.counters.get(shard_id, 0) + 1
        self.application.table.put_row(
            encode_row(
                Lease(
                    shard_id,
                    checkpoint,
                    self.counters[shard_id],
                    owner,
                    parent_shard_ids=shard.parent_shard_ids,
                    hash_key_range=HashKeyRange(*shard.hash_key_range),
                    failing=self.failure(index, minute),
                    throughput_kbps=None if owner is None else 40 + 11.0 * (index % 5) + 6 * sin(minute / 5),
                )
            )
        )

    def failure(self, index: int, minute: int) -> HandlerFailure | None:
        """Of the failing shard: its handler fails with the same record again and again."""
        stands_for = lag_of(index, minute) if index == FAILING else 0
        since = self.clock.now() - timedelta(minutes=stands_for)
        return HandlerFailure("ValueError", 2 * stands_for, since) if stands_for else None


def payload(shard: int, minute: int) -> bytes:
    status = ("placed", "paid", "shipped")[(shard + minute) % 3]
    return f'{{"order": {shard * 1000 + minute}, "status": "{status}", "total": {19 + shard}.90}}'.encode()


def after_an_hour(
    *names: str, shards: int = 24, allows_changes: bool = True, has_hot_shard: bool = False
) -> ConsoleWorld:
    """A console at the end of the hour. The first application has the story; the others have a quiet stream."""
    world = ConsoleWorld(*(names or ("orders",)), shards=shards, allows_changes=allows_changes)
    assert isinstance(world.clock, FakeClock)
    first = next(iter(world.applications.values()))
    if has_hot_shard:
        hot = f"shardId-{HOT:012}"
        traffic = [Traffic(f"customer-{HOT}", 700, 900), Traffic("other", 200, 500, keys=200)]
        first.sketches[hot] = replace(sketch_of(hot, traffic, 20), until=world.clock.now())
    story = FleetStory(first, world.clock)
    for minute in range(MINUTES):
        story.minute(minute)
        for name in world.applications:
            world.console.watching.look(name)
    return world
