"""Makes a page's batches: from slices of it, whose user records are made as they are needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sublet.decisions.session.window import batches
from sublet.engine.calls.parallel import records_at_once
from sublet.engine.lease.progress import Progress
from sublet.engine.lease.row_notes import RowNotes
from sublet.engine.session.hot_shard_sketch import SessionSketch
from sublet.engine.session.lag import SessionLag
from sublet.engine.session.records import UserRecords
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
    """Cuts one page after another into batches."""

    settings: Settings
    notes: RowNotes
    progress: Progress
    user_records: UserRecords
    lag: SessionLag
    sketch: SessionSketch

    def batches(self, page: Page) -> Iterator[Sequence[UserRecord]]:
        """The page's batches, in order. Asking for the next one says that this one is handled, or handed over."""
        lag, progress, user_records = self.lag, self.progress, self.user_records
        self.sketch.turn(page)
        for stream_records in slices(page.records, page.data_bytes, slice_bytes(page)):
            lag.takes(stream_records, progress.reached)
            for batch in batches(user_records.parts(stream_records), records_at_once(self.settings)):
                yield batch
                self.notes.has_handled(batch)
                lag.has_handled(batch)
                progress.write_if_due()
                del batch  # freed before the next one is made
            up_to = max(Checkpoint(stream_records[-1].sequence_number), user_records.last)
            lag.has_passed(stream_records, up_to)
            progress.pass_over(up_to)
            lag.has_handled_bytes(page.data_bytes * len(stream_records) // len(page.records))


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
