"""The user records of a lease's stream records: taken apart in parts, when they are asked for, and only those to be handled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from sublet.decisions.read_position import not_yet_handled
from sublet.engine.process_shared import ProcessShared
from sublet.engine.progress import Progress
from sublet.metric_names import Metric
from sublet.protocol.aggregation import deaggregated
from sublet.protocol.hash_keys import KeysInside
from sublet.protocol.records import StreamRecord, UserRecord, as_put

SLICE_BYTES = 2**20
"""About as many bytes of stream records make batches together: 10,000 user records of 100 bytes, which stay near the CPU's
cache."""

USER_RECORDS_AT_ONCE = 4096
"""Made together, or no more than one batch takes. They need far more memory than the bytes that they come of: 200 bytes for each
of which may be but one."""

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

    def parts(self, stream_records: tuple[StreamRecord, ...]) -> Iterator[Part]:
        """Those that are not handled yet and that the handler wants, in order."""
        parts = self._made(stream_records)
        if not self.shared.settings.deaggregate:
            parts = iter([(as_put(chain.from_iterable(part for part, _ in parts)), 0)])
        if self.shared.wanted:
            parts = ((self.shared.wanted.wanted(part), size) for part, size in parts)
        return parts

    def _made(self, stream_records: tuple[StreamRecord, ...]) -> Iterator[Part]:
        at_once = min(USER_RECORDS_AT_ONCE, self.shared.settings.batch_size)
        parts = deaggregated(stream_records, self.inside, at_once)
        while True:
            with self.shared.deaggregation:
                part = next(parts, None)
            if part is None:
                return
            self._note(part.dropped_out_of_range, part.delivered_whole)
            yield not_yet_handled(part.user_records, self.progress.reached), part.piece_bytes

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


def slices(
    records: tuple[StreamRecord, ...], total_bytes: int, about: int
) -> Iterator[tuple[StreamRecord, ...]]:
    """Runs of about `about` bytes each, in order. Of equal count: a look at each record's size would cost a tenth of all."""
    runs = max(1, -(-total_bytes // about))
    step = max(1, -(-len(records) // runs))
    for start in range(0, len(records), step):
        yield records[start : start + step]
