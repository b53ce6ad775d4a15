"""Measures the CPU cost of a handler's contract: `lambda_event` beside building the same event by hand, `batch` beside
calling the function; and the gain from parallel calls of one shard.

By hand means base64 and a dictionary for each record. A Lambda also parses that from JSON, and the poller writes it;
this is shown for comparison and does not count.
"""

from __future__ import annotations

import base64
import gc
import json
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any, NamedTuple

from sublet import Batch
from sublet.decisions.manager.choose_leases import ClaimReason
from sublet.decisions.manager.packing import LeaseClaim, WorkerItem
from sublet.engine.worker.worker import LeaseWorker
from sublet.handlers.batch import HandlerFunctions
from sublet.handlers.kinesis_event import kinesis_event
from sublet.handlers.lambda_context import FunctionIdentity
from sublet.handlers.lambda_event import LambdaEventHandler
from sublet.protocol.aggregation import aggregate, deaggregate
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.lease import Lease
from sublet.protocol.records import StreamRecord, UserRecord
from sublet.settings import Settings
from sublet.testing.memory import MemoryLeaseTable, MemoryStream, memory_ports

import benchmarks

RECORDS = 10_000
IN_AN_AGGREGATE = 50
ROUNDS = benchmarks.rounds(31)
CALLS = 100_000
GOAL_EVENT = 1.3
GOAL_CALL_MICROSECONDS = 2.0
GOAL_SIDE_BY_SIDE = 8.0
CALL_TAKES = 0.01
CALLS_SIDE_BY_SIDE = 2_000
SHARD = "shardId-000000000000"
ARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"
ROLE = "arn:aws:iam::123456789012:role/orders"
BEGAN = datetime(2026, 1, 31, 8, 0, tzinfo=UTC)
IDENTITY = FunctionIdentity("orders", "arn:aws:lambda:eu-west-1:123456789012:function:orders")


class EventCost(NamedTuple):
    """Medians, in microseconds per record."""

    records: str
    by_hand: float
    ours: float
    with_json: float

    @property
    def ratio(self) -> float:
        return self.ours / self.by_hand


class Found(NamedTuple):
    events: Sequence[EventCost]
    batch_microseconds: float
    """A call of a function by the contract `batch`, beyond the call itself."""
    side_by_side: float
    """How much faster a shard is with parallelization_factor 10 than with 1, if a call takes 10 ms."""


def measure() -> Found:
    return Found([_event_cost("plain", _plain()), _event_cost("aggregated", _aggregated())], _batch_cost(), _speedup())


def report(found: Found) -> bool:
    """Print the table; True if the goals are met."""
    print(f"contracts: microseconds of CPU a record, medians of {ROUNDS}, {RECORDS:,} records of 200 bytes")
    print(f"{'lambda_event':<16}{'by hand':>10}{'sublet':>10}{'ratio':>8}{'by hand, through JSON':>24}")
    for cost in found.events:
        print(f"{cost.records:<16}{cost.by_hand:>10.2f}{cost.ours:>10.2f}{cost.ratio:>7.2f}x{cost.with_json:>24.2f}")
    print(f"batch: {found.batch_microseconds:.2f} microseconds a call, whatever it holds")
    print(f"parallelization_factor 10, calls of 10 ms: {found.side_by_side:.1f}x as fast as with 1")
    events_met = all(cost.ratio <= GOAL_EVENT for cost in found.events)
    met = events_met and found.batch_microseconds <= GOAL_CALL_MICROSECONDS and found.side_by_side >= GOAL_SIDE_BY_SIDE
    goals = (
        f"at most {GOAL_EVENT:g}x by hand, {GOAL_CALL_MICROSECONDS:g} us a call, {GOAL_SIDE_BY_SIDE:g}x side by side"
    )
    print(f"goal: {goals}: {'met' if met else 'MISSED'}")
    return met


def _event_cost(name: str, records: Sequence[UserRecord]) -> EventCost:
    batch = Batch("orders", SHARD, records, 0, lambda _: True, ARN)
    handler = LambdaEventHandler(_nothing, IDENTITY, ROLE, nullcontext())
    assert _by_hand(records) == kinesis_event(SHARD, records, ARN, ROLE)
    by_hand, ours, with_json = _medians(
        lambda: _nothing(_by_hand(records), None),
        lambda: handler.handle(batch),
        lambda: _nothing(json.loads(json.dumps(_by_hand(records))), None),
    )
    return EventCost(name, *(seconds / RECORDS * 1e6 for seconds in (by_hand, ours, with_json)))


def _batch_cost() -> float:
    batch = Batch("orders", SHARD, _plain()[:1], 0, lambda _: True, ARN)
    handler = HandlerFunctions(_ignore)

    def repeat(call: Callable[[Batch], object]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(CALLS):
                call(batch)

        return run

    bare, ours = _medians(repeat(_ignore), repeat(handler.handle))
    return (ours - bare) / CALLS * 1e6


def _speedup() -> float:
    """Measures by the wall clock, since a handler that waits costs no CPU."""
    one, ten = (_window_seconds(factor) for factor in (1, 10))
    return one / ten


def _window_seconds(factor: int) -> float:
    """One window over a shard in memory, with a call per record."""
    stream = MemoryStream(1)
    for number in range(CALLS_SIDE_BY_SIDE):
        stream.put(f"key-{number}", b"data", 0)
    (shard,) = stream.list_shards()
    lease = Lease(shard.shard_id, TRIM_HORIZON, hash_key_range=shard.hash_key_range)
    settings = Settings(
        application="orders",
        stream="orders",
        linger=timedelta(0),
        batch_size=1,
        parallelization_factor=factor,
    )
    ports = memory_ports(stream, MemoryLeaseTable([lease]))
    worker = LeaseWorker(ports, HandlerFunctions(_takes_its_time), settings)
    item = WorkerItem("item", "worker", (LeaseClaim(*lease.fence, why=ClaimReason.FREE),), 1)
    start = time.perf_counter()
    worker.run_window(item, "invocation", ports.clock.steady() + timedelta(minutes=5))
    return time.perf_counter() - start


def _takes_its_time(_: Batch) -> None:
    time.sleep(CALL_TAKES)


def _ignore(batch: Batch) -> None: ...


def _nothing(event: object, context: object) -> None: ...


def _by_hand(records: Sequence[UserRecord]) -> dict[str, Any]:
    """Makes the event as a user would write it."""
    return {
        "Records": [
            {
                "kinesis": {
                    "kinesisSchemaVersion": "1.0",
                    "partitionKey": record.partition_key,
                    "sequenceNumber": record.sequence_number,
                    "data": base64.b64encode(record.data).decode(),
                    "approximateArrivalTimestamp": record.approximate_arrival_timestamp.timestamp(),
                }
                | ({"subSequenceNumber": record.sub_sequence_number} if record.is_aggregated else {}),
                "eventSource": "aws:kinesis",
                "eventVersion": "1.0",
                "eventID": f"{SHARD}:{record.sequence_number}:{record.sub_sequence_number}"
                if record.is_aggregated
                else f"{SHARD}:{record.sequence_number}",
                "eventName": "aws:kinesis:record",
                "invokeIdentityArn": ROLE,
                "awsRegion": "eu-west-1",
                "eventSourceARN": ARN,
            }
            for record in records
        ]
    }


def _plain() -> list[UserRecord]:
    return _records(b"%0200d" % number for number in range(RECORDS))


def _aggregated() -> list[UserRecord]:
    data = [("key", None, b"%0200d" % number) for number in range(IN_AN_AGGREGATE)]
    return _records(aggregate(data) for _ in range(RECORDS // IN_AN_AGGREGATE))


def _records(data: Any) -> list[UserRecord]:
    fetched = [
        StreamRecord(str(49655923345627486310 * 10**36 + place), each, "key", BEGAN + timedelta(seconds=place))
        for place, each in enumerate(data)
    ]
    return list(deaggregate(fetched, None).user_records)


def _medians(*works: Callable[[], object]) -> list[float]:
    """CPU seconds of each, in turns, without the garbage collector."""
    seconds: list[list[float]] = [[] for _ in works]
    gc.disable()
    try:
        for _ in range(ROUNDS):
            for of, work in zip(seconds, works, strict=True):
                start = time.process_time()
                work()
                of.append(time.process_time() - start)
    finally:
        gc.enable()
    return [median(each) for each in seconds]
