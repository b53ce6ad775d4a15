"""Looks for records in all shards of an application at once, within a bounded number of reads and a bounded time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from sublet.operate.decoded_records import DecodedRecord
from sublet.operate.peek import PeekStart, upcoming
from sublet.ports import Ports, Signal
from sublet.protocol.records import UserRecord

READS_MAX = 96
"""Of all shards together, of a hundred stream records each."""

READS_OF_A_SHARD = 12
LASTS = timedelta(seconds=10)
"""No read begins later."""

AT_ONCE = 16


class FoundRecord(NamedTuple):
    shard_id: str
    decoded: DecodedRecord


class SearchResult(NamedTuple):
    """What was found, in the order of arrival.

    shards  how many were read
    left    how many were not, or not as far as was planned
    """

    records: tuple[FoundRecord, ...]
    shards: int
    left: int


def search(
    start: PeekStart,
    ports: Ports,
    wanted: Callable[[UserRecord], DecodedRecord | None],
    most: int,
    stop: Signal | None = None,
) -> SearchResult:
    """Reads every shard, also those that have ended, from `start` on, until `stop` is set. Each record goes to
    `wanted`. Raises what Stream raises.
    """
    stop = stop or ports.tasks.signal()
    shards = [shard.shard_id for shard in ports.stream.list_shards()]
    asked = shards[:READS_MAX]
    reads = max(1, min(READS_OF_A_SHARD, READS_MAX // max(len(asked), 1)))
    until, slots = ports.clock.steady() + LASTS, ports.tasks.slots(AT_ONCE)

    def of_shard(shard_id: str) -> tuple[list[FoundRecord], bool]:
        with slots:
            return _in_shard(shard_id, start, ports, wanted, most, reads, until, stop)

    tasks = [ports.tasks.spawn(partial(of_shard, shard_id)) for shard_id in asked]
    results = [task.result() for task in tasks]
    found = sorted(
        (each for records, _ in results for each in records),
        key=lambda each: each.decoded.record.approximate_arrival_timestamp,
    )
    late = sum(is_late for _, is_late in results)
    return SearchResult(tuple(found[:most]), len(asked) - late, len(shards) - len(asked) + late)


def _in_shard(
    shard_id: str,
    start: PeekStart,
    ports: Ports,
    wanted: Callable[[UserRecord], DecodedRecord | None],
    most: int,
    reads: int,
    until: datetime,
    stop: Signal,
) -> tuple[list[FoundRecord], bool]:
    """The shard's records, and whether the time was over first."""
    found: list[FoundRecord] = []
    if stop.is_set() or ports.clock.steady() >= until:
        return found, True
    for record in upcoming(shard_id, start.at, start.after, ports, reads, stop=stop):
        decoded = wanted(record)
        if decoded is not None:
            found.append(FoundRecord(shard_id, decoded))
        if len(found) == most:
            break
        if stop.is_set() or ports.clock.steady() >= until:
            return found, True
    return found, stop.is_set()
