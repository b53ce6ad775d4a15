"""Makes the user records of a page on demand, without those that are handled already or that the handler does not
want.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from sublet.decisions.session.read_position import not_yet_handled
from sublet.decisions.session.record_filter import RecordFault
from sublet.engine.lease.progress import Progress
from sublet.engine.process_shared import ProcessShared
from sublet.engine.session.hot_shard_sketch import SessionSketch
from sublet.metric_names import Metric
from sublet.protocol.aggregation import Deaggregation, deaggregated
from sublet.protocol.checkpoint import AT_TIMESTAMP, Checkpoint
from sublet.protocol.hash_keys import KeysInside
from sublet.protocol.records import StreamRecord, UserRecord, as_put, decodable

USER_RECORDS_AT_ONCE = 4096
"""How many user records are made at a time, at most as many as a batch has. They need far more memory than an
aggregate's bytes: 200 bytes each, even if the data is a single byte.
"""

NOTHING = AT_TIMESTAMP
"""This position is before every other."""

Part = tuple[Sequence[UserRecord], int]
"""User records; and the size in bytes of the piece if they come from a piece of a large aggregate, otherwise 0."""


@dataclass(slots=True)
class UserRecords:
    """`inside`: the shard's hash key range, for KCL's rule. If the row has none (kcl-rust, old Java), nothing is
    dropped.
    """

    shared: ProcessShared
    shard_id: str
    progress: Progress
    sketch: SessionSketch
    inside: KeysInside | None = field(default=None, init=False)
    dropped_out_of_range: int = field(default=0, init=False)
    faults: dict[Checkpoint, RecordFault] = field(default_factory=dict, init=False)
    """Records in the latest `parts` whose content raised an exception. They are passed on, so that their calls fail."""
    last: Checkpoint = field(default=NOTHING, init=False)
    """The last user record that was made in the latest `parts`, wanted or not. In an aggregate it has a sub-sequence
    number.
    """

    def parts(self, stream_records: tuple[StreamRecord, ...]) -> Iterator[Part]:
        """The user records that are not handled yet and that the handler wants, in order."""
        self.faults.clear()
        self.last = NOTHING
        shared, parts = self.shared, self._made(stream_records)
        if not shared.settings.deaggregate:
            parts = iter([(as_put(chain.from_iterable(part for part, _ in parts)), 0)])
        parts = ((self._not_finished_ahead(part), size) for part, size in parts)
        if shared.wanted:
            parts = ((self._wanted(part), size) for part, size in parts)
        decode = shared.decode
        if decode is not None:
            parts = ((decodable(part, decode), size) for part, size in parts)
        return parts

    def _not_finished_ahead(self, records: Sequence[UserRecord]) -> Sequence[UserRecord]:
        ahead, settings = self.progress.finished_ahead, self.shared.settings
        if ahead is None or ahead.as_put == settings.deaggregate:
            return records
        return [record for record in records if not ahead.covers(record)]

    def _wanted(self, records: Sequence[UserRecord]) -> Sequence[UserRecord]:
        wanted = self.shared.wanted
        filtered = wanted.wanted(records, self.faults)
        self.faults.update(filtered.faults)
        return filtered.records

    def _made(self, stream_records: tuple[StreamRecord, ...], given: Checkpoint = NOTHING) -> Iterator[Part]:
        """Makes the records after `given`."""
        parts = self._taken_apart(stream_records)
        while True:
            try:
                part = next(parts, None)
            except MemoryError:
                raise
            except Exception as failure:  # noqa: BLE001 - no bytes are known to do this
                yield from self._one_by_one(stream_records, given, failure)
                return
            if part is None:
                return
            self._note(part.dropped_out_of_range, part.delivered_whole)
            if part.user_records:
                self.last = part.user_records[-1].checkpoint
            records = not_yet_handled(part.user_records, max(self.progress.reached, given))
            self.sketch.see(records)
            yield records, part.piece_bytes
            if part.user_records:
                given = part.user_records[-1].checkpoint

    def _taken_apart(self, stream_records: tuple[StreamRecord, ...]) -> Iterator[Deaggregation]:
        shared = self.shared
        at_once = min(USER_RECORDS_AT_ONCE, shared.settings.batch_size)
        parts = deaggregated(stream_records, self.inside, at_once, self._may_drop)
        while True:
            with shared.deaggregation:
                part = next(parts, None)
            if part is None:
                return
            yield part

    def _may_drop(self, record: StreamRecord) -> bool:
        """Releases the lock meanwhile: this may wait for a call of the service, and other leases must not wait too."""
        shared = self.shared
        shared.deaggregation.__exit__(None, None, None)
        try:
            return shared.strays.may_drop(record)
        finally:
            shared.deaggregation.__enter__()

    def _one_by_one(
        self, stream_records: tuple[StreamRecord, ...], given: Checkpoint, failure: Exception
    ) -> Iterator[Part]:
        """Makes the user records of one stream record at a time, after one of them raised `failure`. That one is passed
        on whole and its call fails, unless a part of it was passed on before.
        """
        if len(stream_records) > 1:
            for each in stream_records:
                yield from self._made((each,), given)
            return
        of = stream_records[0]
        whole = UserRecord(of.data, of.partition_key, 0, of)
        if whole.checkpoint <= max(self.progress.reached, given):
            raise failure
        self.faults[whole.checkpoint] = RecordFault("deaggregating the record", failure)
        yield [whole], 0

    def _note(self, dropped_out_of_range: int, delivered_whole: int) -> None:
        """Count aggregates that were dropped, or delivered whole."""
        ports = self.shared.ports
        if dropped_out_of_range:
            self.dropped_out_of_range += dropped_out_of_range
            self.sketch.drop(dropped_out_of_range)
            ports.metrics.put(Metric.RECORDS_DROPPED_OUT_OF_RANGE, dropped_out_of_range, shard_id=self.shard_id)
        if delivered_whole:
            ports.metrics.put(Metric.AGGREGATES_DELIVERED_WHOLE, delivered_whole, shard_id=self.shard_id)
            ports.log.warning(
                "aggregate with an impossible index or hash key delivered as one record",
                shard_id=self.shard_id,
                aggregates=delivered_whole,
            )
