"""Puts records: in full calls, with retries of refused records, and KPL aggregates that stay whole through a reshard.

At least once: a task that Spark runs again puts its rows again, as does a call whose reply was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple, Protocol

from sublet.errors import RecordRefused, StreamUnavailable
from sublet.ports import Clock
from sublet.protocol.aggregation import Aggregate, Aggregator
from sublet.protocol.hash_keys import hash_key
from sublet.protocol.records import NewRecord, PutRefused
from sublet.protocol.shard import Shard
from sublet.protocol.shard_map import ShardMap
from sublet.spark.read.pace import Sleep

RECORDS_PER_CALL = 500
BYTES_PER_CALL = 10 * 2**20
"""Kinesis' limits for a PutRecords call, keys included."""

TOO_MUCH = "ProvisionedThroughputExceededException"
"""Kinesis: a shard takes 1 MB and 1,000 records a second."""

_FIRST_PAUSE = timedelta(milliseconds=100)
_LONGEST_PAUSE = timedelta(seconds=2)


class Writer(Protocol):
    """Puts some records. Returns for each the shard that took it, or why it was refused."""

    def put(self, records: Sequence[NewRecord]) -> list[str | PutRefused]: ...


class Placed(NamedTuple):
    """A record that was taken, and the shard that it is in."""

    record: NewRecord
    shard_id: str


@dataclass(slots=True)
class Putter:
    """Puts records for one task. `calls` and `retried` are counters; `patience`: how long it tries without any
    success."""

    writer: Writer
    clock: Clock
    sleep: Sleep
    patience: timedelta
    calls: int = 0
    retried: int = 0

    def put_all(self, records: Iterable[NewRecord]) -> Iterator[Placed]:
        """Puts lazily, in calls as full as possible. Raises StreamUnavailable, RecordRefused, and what the writer
        raises."""
        for call in full_calls(records):
            yield from self._put(call)

    def _put(self, records: Sequence[NewRecord]) -> Iterator[Placed]:
        left, pause, success_at = list(records), _FIRST_PAUSE, self.clock.steady()
        while True:
            self.calls += 1
            outcomes = list(zip(left, self.writer.put(left), strict=True))
            yield from (
                Placed(record, shard) for record, shard in outcomes if not isinstance(shard, PutRefused)
            )
            refused = [(record, why) for record, why in outcomes if isinstance(why, PutRefused)]
            if not refused:
                return
            _check_all_pass(refused)
            if len(refused) < len(left):
                pause, success_at = _FIRST_PAUSE, self.clock.steady()
            elif self.clock.steady() - success_at > self.patience:
                raise _gave_up(refused, self.patience)
            self.retried += len(refused)
            self.sleep(pause)
            left, pause = [record for record, _ in refused], min(pause * 2, _LONGEST_PAUSE)


def _check_all_pass(refused: Sequence[tuple[NewRecord, PutRefused]]) -> None:
    """Raises RecordRefused for the first record that is refused for good: retries would keep the others waiting for
    nothing."""
    for record, why in refused:
        if not why.passes:
            raise RecordRefused(
                f"Kinesis refuses the record {_named(record)} and {len(record.data)} bytes "
                f"of data ({why.code}: {why.reason})"
            )


def _named(record: NewRecord) -> str:
    if record.partition_key is None:
        return "without a partitionKey"
    return f"with partitionKey {record.partition_key!r:.100}"


def _gave_up(refused: Sequence[tuple[NewRecord, PutRefused]], patience: timedelta) -> StreamUnavailable:
    why = refused[0][1]
    advice = (
        "the stream needs more shards"
        if why.code == TOO_MUCH
        else "Kinesis is failing; a longer `patience` waits longer"
    )
    return StreamUnavailable(
        f"{len(refused)} records were refused for {patience}, at last with {why.code} ({why.reason}): {advice}"
    )


def full_calls(records: Iterable[NewRecord]) -> Iterator[list[NewRecord]]:
    """The records in order, as many per call as Kinesis takes."""
    call: list[NewRecord] = []
    size = 0
    for record in records:
        own = record.size
        if call and (len(call) == RECORDS_PER_CALL or size + own > BYTES_PER_CALL):
            yield call
            call, size = [], 0
        call.append(record)
        size += own
    if call:
        yield call


@dataclass(slots=True)
class AggregatingPutter:
    """Puts user records in KPL aggregates, each with records of one shard.

    KCL drops an aggregate with a record outside its shard, trusting the producer to send it again. So if a reply
    names another shard than predicted, and that shard does not cover all of the aggregate's records, they are sent
    again after a new listing of the shards.
    """

    putter: Putter
    list_shards: Callable[[], Sequence[Shard]]
    sent_again: int = 0
    _map: ShardMap | None = field(default=None)

    def put_all(self, records: Iterable[NewRecord]) -> int:
        """Returns the number of stream records."""
        put = 0
        pending: Iterable[NewRecord] = records
        while True:
            strays: list[NewRecord] = []
            shards = self._map = self._map or ShardMap.of(self.list_shards())
            sent: dict[int, _Sent] = {}
            for record, shard_id in self.putter.put_all(_aggregated(pending, shards, sent)):
                put += 1
                group = sent.pop(id(record), None)
                if group is None:
                    continue  # a record without a key is put alone, and may be in any shard
                if shard_id != group.predicted and not self._fits(group, shard_id):
                    strays += group.user_records
            if not strays:
                return put
            self.sent_again += len(strays)
            pending, self._map = strays, None

    def _fits(self, group: _Sent, shard_id: str) -> bool:
        """True if the shard that took the aggregate covers each of its records. A shard's range never changes."""
        if self._map is None or shard_id not in self._map.ranges:
            self._map = ShardMap.of(self.list_shards())
        range_ = self._map.ranges.get(shard_id)
        return range_ is not None and all(
            hash_key(r.partition_key, r.explicit_hash_key) in range_ for r in group.user_records
        )


class _Sent(NamedTuple):
    predicted: str
    record: NewRecord
    user_records: list[NewRecord]


def _aggregated(
    records: Iterable[NewRecord], shards: ShardMap, sent: dict[int, _Sent]
) -> Iterator[NewRecord]:
    """The records in aggregates, with one open aggregate per shard.

    sent   the contents of each finished aggregate, by its identity: two aggregates may be equal
    """
    aggregators: dict[str, Aggregator] = {}
    inside: dict[str, list[NewRecord]] = {}

    def finish(shard_id: str, aggregate: Aggregate | None) -> Iterator[NewRecord]:
        if aggregate is not None:
            record = NewRecord(aggregate.data, aggregate.partition_key, aggregate.explicit_hash_key)
            count = aggregate.user_records
            sent[id(record)] = _Sent(shard_id, record, inside[shard_id][:count])
            inside[shard_id] = inside[shard_id][count:]
            yield record

    for record in records:
        if record.partition_key is None:
            yield record
            continue
        shard_id = shards.shard_at(hash_key(record.partition_key, record.explicit_hash_key))
        aggregator = aggregators.setdefault(shard_id, Aggregator())
        full = aggregator.add(record.partition_key, record.explicit_hash_key, record.data)
        yield from finish(shard_id, full)
        inside.setdefault(shard_id, []).append(record)
    for shard_id, aggregator in aggregators.items():
        yield from finish(shard_id, aggregator.flush())
