"""A task's reading. Each run yields exactly the records of the task's range, or fails. It never finishes short."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from sublet.decisions.session.read_position import IteratorType, ReadPosition
from sublet.errors import DataGap, ShardNotFound, StreamUnavailable
from sublet.protocol.hash_keys import keys_inside
from sublet.protocol.records import Page, StreamRecord
from sublet.protocol.stream_info import NOT_DESCRIBED, Placement
from sublet.protocol.stream_key import own_id, stream_key_of
from sublet.settings import POLL_LIMIT_MAX
from sublet.spark.options import Options
from sublet.spark.plan.gaps import NEVER_TRIMMED, named
from sublet.spark.plan.offsets import ReadTo
from sublet.spark.plan.planning import ShardRange
from sublet.spark.plan.strays import StrayFilter
from sublet.spark.read.connection import StreamAccess, of_stream
from sublet.spark.read.page_memory import UNKNOWN_RECORD
from sublet.spark.read.pages import first_record_at, mean_bytes, read_pages
from sublet.spark.read.positions import is_beyond, open_at, opening
from sublet.spark.read.rows import Rows

DISORDER = timedelta(minutes=1)
"""How long after `until` a batch looks for earlier records, because arrival times need not rise with sequence
numbers.
"""

PAGE_BYTES = 2 * 2**20
"""About the data of a page, where the size of its records is known: what a shard gives in a second. After a larger page
it would give nothing for longer, also at the end of the task.
"""

_ALWAYS, _NEVER = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ReadTask:
    """A range and how to read it.

    debt               for how long the driver's looks still use up the shard's read limit
    first_call_waited  the driver has already waited for the first call
    expected           the least number of stream records in the range; None: not known, so read in the largest pages
    placement          who places the stream's records, as known when the batch was planned
    stream_arn         the stream's ARN, if calls name it
    record_bytes       the size of the range's stream records, as the driver's look found it; None: not known
    """

    stream: str
    range: ShardRange
    fail_on_data_loss: bool
    debt: timedelta = timedelta(0)
    first_call_waited: bool = False
    expected: int | None = None
    placement: Placement = NOT_DESCRIBED
    stream_arn: str | None = None
    record_bytes: int | None = None


def access_for(task: ReadTask, options: Options, connect: Callable[[Options], StreamAccess]) -> StreamAccess:
    """Connects to the task's stream, which may be one of several."""
    key = stream_key_of(task.range.shard_id)
    return of_stream(connect(options.of_stream(key, task.stream_arn)), key)


def weights_of(tasks: Sequence[ReadTask]) -> list[float]:
    """How much each task reads, if that is known of all; otherwise all count the same."""
    known = [task.expected * task.record_bytes for task in tasks if task.expected and task.record_bytes]
    return [float(each) for each in known] if len(known) == len(tasks) else [1.0] * len(tasks)


@dataclass(slots=True)
class RangeRows:
    """Makes rows of a range's stream records."""

    connection: StreamAccess
    task: ReadTask
    _rows: Rows = field(init=False)

    def __post_init__(self) -> None:
        wanted = self.task.range
        strays = StrayFilter(keys_inside(wanted.hash_key_range), self.task.placement)
        self._rows = Rows(self.task.stream, own_id(wanted.shard_id), strays)

    def batches(self, records: Sequence[StreamRecord]) -> Iterator[pa.RecordBatch]:
        return self._rows.batches(records, _after(self.task.range), _up_to(self.task.range))

    def report(self) -> None:
        """Called after the last record: logs what the rules dropped or kept."""
        rows, log = self._rows, self.connection.log
        counts = {"dropped_out_of_range": rows.strays.dropped, "delivered_whole": rows.delivered_whole}
        if any(counts.values()):
            told = {name: count for name, count in counts.items() if count}
            log.warning("aggregates not expanded", shard_id=rows.shard_id, **told)
        for why, user_records in rows.strays.kept.items():
            log.info(
                "aggregates outside their shard's hash key range are kept",
                shard_id=rows.shard_id,
                why=why.value,
                user_records=user_records,
            )

    def settle(self) -> None:
        """Wait until the reads are paid for, so that the driver may look into the shard."""
        self.connection.pace.settle(self.task.range.shard_id)


def read_range(connection: StreamAccess, task: ReadTask) -> Iterator[pa.RecordBatch]:
    """The range's rows, in order. Raises what `record_pages` raises."""
    rows = RangeRows(connection, task)
    for records in record_pages(connection, task):
        yield from rows.batches(records)
    rows.report()
    rows.settle()


def record_pages(connection: StreamAccess, task: ReadTask) -> Iterator[Sequence[StreamRecord]]:
    """The stream records of the range, in order, a page at a time.

    Raises DataGap, StreamUnavailable if its end does not come within our patience, and what Stream raises.
    """
    connection.pace.owe(task.range.shard_id, task.debt)
    try:
        yield from _records(connection, task)
    except ShardNotFound as gone:
        _lost(connection, task, f"the shard is gone: {gone}")


def _records(connection: StreamAccess, task: ReadTask) -> Iterator[Sequence[StreamRecord]]:
    wanted = task.range
    verify = wanted.verify and not _is_verified(connection, task)
    pages = read_pages(
        connection,
        wanted.shard_id,
        _open_at(wanted, verify),
        lambda: _limit(task, fetched, record_bytes or assumed),
        first_call_waited=task.first_call_waited,
    )
    fetched, record_bytes = 0, task.record_bytes
    assumed = None if connection.memory is None else UNKNOWN_RECORD
    at_tip_since: datetime | None = None
    for page in pages:
        fetched += len(page.records)
        record_bytes = mean_bytes(page) or record_bytes
        records: Sequence[StreamRecord] = page.records
        if verify and records:
            records = _after_begin(connection, task, records)
            verify = False
        elif wanted.quiet_until is not None:
            records = [record for record in records if is_beyond(record, wanted.begin)]
        records, is_done = _up_to_end(connection, task, records)
        if records:
            yield _within(records, wanted)
        is_past = _is_past(page, wanted, connection)
        if is_done or is_past or page.is_shard_end:
            break
        is_at_tip = not page.records and page.millis_behind_latest == 0
        at_tip_since = (at_tip_since or connection.own_time()) if is_at_tip else None
        if at_tip_since is not None and connection.own_time() - at_tip_since > connection.patience:
            _tell_of_trimmed_end(connection, task)
            return
        del page, records  # the wait for the next one may be long
    if verify and isinstance(wanted.begin, ReadTo):
        _lost(
            connection,
            task,
            f"{named(wanted.begin)} is past retention, and unread ones after it may be; none is left",
        )
    elif wanted.end is not None and not is_done and not is_past:
        _lost(connection, task, f"the shard ended before record {wanted.end}, the last of this batch")


def _limit(task: ReadTask, fetched: int, record_bytes: int | None) -> int:
    """How many records to ask for: about PAGE_BYTES of them, and at most as many as are expected, if that is known,
    then as many again as were read, so that at most half are read in vain.
    """
    most = POLL_LIMIT_MAX if record_bytes is None else PAGE_BYTES // record_bytes
    if task.expected is not None:
        opened_at_one_read = _open_at(task.range, task.range.verify).type is IteratorType.AT_SEQUENCE_NUMBER
        expected = task.expected + opened_at_one_read
        most = min(most, expected - fetched if fetched < expected else fetched)
    return max(1, min(most, POLL_LIMIT_MAX))  # a shard that has just ended may have none


def _tell_of_trimmed_end(connection: StreamAccess, task: ReadTask) -> None:
    """Called if the shard's tip comes before the range's end. Raises StreamUnavailable if the end must exist."""
    wanted = task.range
    if wanted.end_arrived is None or connection.clock.now() - wanted.end_arrived < NEVER_TRIMMED:
        raise StreamUnavailable(
            f"shard {wanted.shard_id} is at its tip and record {wanted.end} has not come for {connection.patience}, "
            "although it exists: the task fails so as not to finish short, and Spark runs it again"
        )
    _lost(connection, task, f"record {wanted.end}, the last of this batch, is past retention; none is left")


def _open_at(wanted: ShardRange, verify: bool) -> ReadPosition:
    if verify and isinstance(wanted.begin, ReadTo):
        return ReadPosition(IteratorType.AT_SEQUENCE_NUMBER, wanted.begin.sequence_number)
    return opening(wanted.begin, wanted.quiet_until)


def _is_verified(connection: StreamAccess, task: ReadTask) -> bool:
    """Looks for the record before the range with a separate call, if the range is opened after a quiet stretch."""
    wanted = task.range
    if not isinstance(wanted.begin, ReadTo) or opening(wanted.begin, wanted.quiet_until) == open_at(wanted.begin):
        return False
    first = first_record_at(connection, wanted.shard_id, wanted.begin)
    if first is None:
        _lost(connection, task, f"{named(wanted.begin)} is past retention, and unread ones after it may be")
    else:
        _after_begin(connection, task, [first])
    return True


def _after(wanted: ShardRange) -> tuple[str, int] | None:
    begin = wanted.begin
    if isinstance(begin, ReadTo) and begin.sub_sequence_number is not None:
        return begin.sequence_number, begin.sub_sequence_number
    return None


def _up_to(wanted: ShardRange) -> tuple[str, int] | None:
    if wanted.end is not None and wanted.end_sub_sequence_number is not None:
        return wanted.end, wanted.end_sub_sequence_number
    return None


def _after_begin(connection: StreamAccess, task: ReadTask, records: Sequence[StreamRecord]) -> Sequence[StreamRecord]:
    """Drops the record before the range, at which the shard was opened; if it did not come again, it is past
    retention."""
    begin = task.range.begin
    assert isinstance(begin, ReadTo), "a task verifies by a record"
    first = records[0]
    if int(first.sequence_number) != int(begin.sequence_number):
        _lost(
            connection,
            task,
            f"{named(begin)} is past retention, and unread ones after it may be; the first one left "
            f"is {first.sequence_number}, arrived {first.approximate_arrival_timestamp.isoformat()}",
        )
        return records
    return records if begin.sub_sequence_number is not None else records[1:]


def _up_to_end(
    connection: StreamAccess, task: ReadTask, records: Sequence[StreamRecord]
) -> tuple[Sequence[StreamRecord], bool]:
    """The records up to the range's end, and whether they reach it."""
    end = task.range.end
    if end is None or not records or int(records[-1].sequence_number) < int(end):
        return records, False
    within = [record for record in records if int(record.sequence_number) <= int(end)]
    if not within or int(within[-1].sequence_number) != int(end):
        _lost(
            connection,
            task,
            f"record {end}, the last of this batch, is past retention; the first one left after it arrived "
            f"{records[len(within)].approximate_arrival_timestamp.isoformat()}",
        )
    return within, True


def _within(records: Sequence[StreamRecord], wanted: ShardRange) -> Sequence[StreamRecord]:
    if wanted.since is None and wanted.until is None:
        return records
    since, until = wanted.since or _ALWAYS, wanted.until or _NEVER
    return [r for r in records if since <= r.approximate_arrival_timestamp < until]


def _is_past(page: Page, wanted: ShardRange, connection: StreamAccess) -> bool:
    """True if everything that arrived before `until` has been read. `until` is in the past, so nothing more can arrive
    before it."""
    if wanted.until is None:
        return False
    if page.records:
        return page.records[0].approximate_arrival_timestamp >= wanted.until + DISORDER
    return page.millis_behind_latest == 0 and connection.clock.now() > wanted.until


def _lost(connection: StreamAccess, task: ReadTask, what: str) -> None:
    message = f"stream {task.stream}, shard {task.range.shard_id}: {what}"
    if task.fail_on_data_loss:
        raise DataGap(f"{message}. Set failOnDataLoss to false to go on with what is left")
    connection.log.warning("data gap", what=message)
