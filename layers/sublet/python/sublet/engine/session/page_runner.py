"""Hands a page to the handler: in slices, whose user records are made as they are needed, and in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sublet.decisions.session.window import batches
from sublet.engine.calls.parallel import handle_in_lanes, records_at_once
from sublet.engine.calls.runner import BatchRunner
from sublet.engine.lease.held import HeldLease
from sublet.engine.lease.progress import Progress
from sublet.engine.session.lag import SessionLag
from sublet.engine.session.records import UserRecords
from sublet.engine.session.sketch import SessionSketch
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.kpl_format import MAGIC
from sublet.protocol.records import Page, StreamRecord, UserRecord
from sublet.settings import Settings

SLICE_BYTES = 2**20
"""Batches are made from about this many bytes of stream records: 10,000 user records of 100 bytes, which stay near the
CPU's cache.
"""

PLAIN_SLICE_BYTES = 4 * SLICE_BYTES
"""The same for plain records, which are not copied: fewer and larger batches. A call with a time limit wakes another
thread, which costs as much CPU as 200 records.
"""


@dataclass(frozen=True, slots=True)
class PageRunner:
    """Runs one page after another."""

    settings: Settings
    held: HeldLease
    progress: Progress
    user_records: UserRecords
    runner: BatchRunner
    lag: SessionLag
    sketch: SessionSketch

    def handle(self, page: Page) -> bool:
        """Hands the page over. Returns False if the handler did not finish the page's records."""
        self.sketch.turn(page)
        for stream_records in slices(page.records, page.data_bytes, slice_bytes(page)):
            if not self._handle_slice(stream_records, page.millis_behind_latest):
                return False
            self.lag.has_handled_bytes(page.data_bytes * len(stream_records) // len(page.records))
        return True

    def _handle_slice(self, stream_records: tuple[StreamRecord, ...], millis_behind_latest: int) -> bool:
        """Hands a part of the page over."""
        self.lag.takes(stream_records, self.progress.reached)
        for batch in batches(self.user_records.parts(stream_records), records_at_once(self.settings)):
            if not self._handle_batch(batch, millis_behind_latest):
                return False
            self.held.has_handled(batch)
            self.lag.has_handled(batch)
            self.progress.write_if_due()
        up_to = max(Checkpoint(stream_records[-1].sequence_number), self.user_records.last)
        self.lag.has_passed(stream_records, up_to)
        self.progress.pass_over(up_to)
        return True

    def _handle_batch(self, batch: Sequence[UserRecord], millis_behind_latest: int) -> bool:
        if self.settings.parallelization_factor > 1:
            return handle_in_lanes(self.runner, self.progress, batch, millis_behind_latest)
        return self.runner.handle(batch, millis_behind_latest)


def slice_bytes(page: Page) -> int:
    """How many bytes a slice has, by the page's first record: a producer seldom mixes aggregates and plain records."""
    is_aggregate = bool(page.records) and page.records[0].data.startswith(MAGIC)
    return SLICE_BYTES if is_aggregate else PLAIN_SLICE_BYTES


def slices(records: tuple[StreamRecord, ...], total_bytes: int, about: int) -> Iterator[tuple[StreamRecord, ...]]:
    """Runs of about `about` bytes each, in order. All have the same number of records, because looking at each record's
    size would cost a tenth of the whole read.
    """
    runs = max(1, -(-total_bytes // about))
    step = max(1, -(-len(records) // runs))
    for start in range(0, len(records), step):
        yield records[start : start + step]
