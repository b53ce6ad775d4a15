"""The user records of a lease's stream records: taken apart in parts, when they are asked for, and only those to be handled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from sublet.decisions.read_position import not_yet_handled
from sublet.decisions.record_filter import Fault
from sublet.engine.lease.progress import Progress
from sublet.engine.process_shared import ProcessShared
from sublet.metric_names import Metric
from sublet.protocol.aggregation import Deaggregation, deaggregated
from sublet.protocol.checkpoint import AT_TIMESTAMP, Checkpoint
from sublet.protocol.hash_keys import KeysInside
from sublet.protocol.records import StreamRecord, UserRecord, as_put

USER_RECORDS_AT_ONCE = 4096
"""Made together, or no more than one batch takes. They need far more memory than the bytes that they come of: 200 bytes for each
of which may be but one."""

NOTHING = AT_TIMESTAMP
"""Before every position."""

Part = tuple[Sequence[UserRecord], int]
"""User records, and for those of a piece of a large aggregate its bytes."""


@dataclass(slots=True)
class UserRecords:
    """`inside`: the shard's hash key range, for KCL's rule. Where a row has none (kcl-rust, old Java), nothing is dropped."""

    shared: ProcessShared
    shard_id: str
    progress: Progress
    inside: KeysInside | None = field(default=None, init=False)
    dropped_out_of_range: int = field(default=0, init=False)
    faults: dict[Checkpoint, Fault] = field(default_factory=dict, init=False)
    """Of the latest `parts`: what the content of records raised that are given all the same, to fail by themselves."""
    last: Checkpoint = field(default=NOTHING, init=False)
    """Of the latest `parts`: the last user record that was made, wanted or not. An aggregate's has a sub-sequence number."""

    def parts(self, stream_records: tuple[StreamRecord, ...]) -> Iterator[Part]:
        """Those that are not handled yet and that the handler wants, in order."""
        self.faults.clear()
        self.last = NOTHING
        parts = self._made(stream_records)
        if not self.shared.settings.deaggregate:
            parts = iter([(as_put(chain.from_iterable(part for part, _ in parts)), 0)])
        parts = ((self._not_finished_ahead(part), size) for part, size in parts)
        if self.shared.wanted:
            parts = ((self._wanted(part), size) for part, size in parts)
        return parts

    def _not_finished_ahead(self, records: Sequence[UserRecord]) -> Sequence[UserRecord]:
        ahead = self.progress.finished_ahead
        if ahead is None or ahead.as_put == self.shared.settings.deaggregate:
            return records
        return [record for record in records if not ahead.covers(record)]

    def _wanted(self, records: Sequence[UserRecord]) -> Sequence[UserRecord]:
        filtered = self.shared.wanted.wanted(records, self.faults)
        self.faults.update(filtered.faults)
        return filtered.records

    def _made(self, stream_records: tuple[StreamRecord, ...], given: Checkpoint = NOTHING) -> Iterator[Part]:
        """Beyond what was `given` before."""
        parts = self._taken_apart(stream_records)
        while True:
            try:
                part = next(parts, None)
            except MemoryError:
                raise
            except Exception as failure:  # noqa: BLE001 - of no bytes it is known that they do this
                yield from self._one_by_one(stream_records, given, failure)
                return
            if part is None:
                return
            self._note(part.dropped_out_of_range, part.delivered_whole)
            if part.user_records:
                self.last = part.user_records[-1].checkpoint
            yield not_yet_handled(part.user_records, max(self.progress.reached, given)), part.piece_bytes
            if part.user_records:
                given = part.user_records[-1].checkpoint

    def _taken_apart(self, stream_records: tuple[StreamRecord, ...]) -> Iterator[Deaggregation]:
        at_once = min(USER_RECORDS_AT_ONCE, self.shared.settings.batch_size)
        parts = deaggregated(stream_records, self.inside, at_once, self._may_drop)
        while True:
            with self.shared.deaggregation:
                part = next(parts, None)
            if part is None:
                return
            yield part

    def _may_drop(self, record: StreamRecord) -> bool:
        """Without the lock: it may call the service and wait for it, and other leases go on meanwhile."""
        self.shared.deaggregation.__exit__(None, None, None)
        try:
            return self.shared.strays.may_drop(record)
        finally:
            self.shared.deaggregation.__enter__()

    def _one_by_one(
        self, stream_records: tuple[StreamRecord, ...], given: Checkpoint, failure: Exception
    ) -> Iterator[Part]:
        """One of them raised `failure`: alone it is given whole, to fail by itself; unless a part of it was given before."""
        if len(stream_records) > 1:
            for each in stream_records:
                yield from self._made((each,), given)
            return
        of = stream_records[0]
        whole = UserRecord(of.data, of.partition_key, 0, of)
        if whole.checkpoint <= max(self.progress.reached, given):
            raise failure
        self.faults[whole.checkpoint] = Fault("taking the aggregate apart", failure)
        yield [whole], 0

    def _note(self, dropped_out_of_range: int, delivered_whole: int) -> None:
        """What became of aggregates that were not simply taken apart."""
        if dropped_out_of_range:
            self.dropped_out_of_range += dropped_out_of_range
            self.shared.ports.metrics.put(Metric.RECORDS_DROPPED_OUT_OF_RANGE, dropped_out_of_range)
        if delivered_whole:
            self.shared.ports.metrics.put(Metric.AGGREGATES_DELIVERED_WHOLE, delivered_whole)
            self.shared.ports.log.warning(
                "aggregate with an impossible index or hash key delivered as one record",
                shard_id=self.shard_id,
                aggregates=delivered_whole,
            )
