"""Reads the next records of a shard without a lease, and without moving anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import count
from typing import NamedTuple

from sublet.decisions.session.out_of_range_aggregates import why_kept
from sublet.decisions.session.read_position import (
    IteratorType,
    ReadPosition,
    is_unopened,
    not_yet_handled,
    read_position,
)
from sublet.decisions.session.record_filter import RecordFilter
from sublet.errors import LeaseTableNotFound, ShardNotFound, StreamUnavailable
from sublet.operate.positions.seek_time import SeekTime
from sublet.ports import Ports, Refusal, Signal
from sublet.protocol.aggregation import ALL, deaggregate, deaggregated
from sublet.protocol.checkpoint import TRIM_HORIZON, Checkpoint
from sublet.protocol.hash_keys import KeysInside
from sublet.protocol.lease import Lease, lease_key_of
from sublet.protocol.records import Page, StreamRecord, UserRecord, as_put
from sublet.protocol.shard import Shard
from sublet.protocol.stream_info import Placement
from sublet.reading.several_streams import ports_of_stream, settings_of_stream
from sublet.settings import HashRangeFilter, Settings

POLL_INTERVAL = timedelta(milliseconds=500)
"""The pause between two reads, because the shard's other readers share five a second."""

LIMIT = 100
REFUSALS_MAX = 20


class PeekStart(NamedTuple):
    """Where reading begins, and the checkpoint up to which records are left out.

    is_unopened  the lease is at LATEST, so reading begins at the shard's beginning, while a worker would begin at its
                 tip
    """

    at: ReadPosition
    after: Checkpoint
    is_unopened: bool = False


def start_at(place: SeekTime, ports: Ports) -> PeekStart:
    moment = place.moment(ports.stream.service_time())
    if moment is None:
        return PeekStart(ReadPosition(IteratorType.TRIM_HORIZON), TRIM_HORIZON)
    return PeekStart(ReadPosition(IteratorType.AT_TIMESTAMP, at=moment), TRIM_HORIZON)


def unopened_text(shard_id: str) -> str:
    """Explains which records are shown from a start with `is_unopened`."""
    return (
        f"the lease of shard {shard_id} is at LATEST, and sublet has not opened it: these are all records that the "
        "stream keeps. KCL would start at the tip; so would sublet, unless the shard's parent has a lease"
    )


def start_at_lease(shard_id: str, application: str, ports: Ports) -> PeekStart | None:
    """Starts at the lease's position; None if the shard is handled to its end. Raises ShardNotFound if it has no
    lease.
    """
    row = ports.table.get(lease_key_of(shard_id))
    if not isinstance(row, Lease):
        raise ShardNotFound(f"shard {shard_id} has no lease in {application}: give --from")
    opened = read_position(row)
    return None if opened is None else PeekStart(opened, row.checkpoint, is_unopened(row))


class ShardAsHandled(NamedTuple):
    """The records as a consumer's handler gets them: without the aggregates that it drops as KCL does, those outside
    the shard's hash key range unless Kinesis may have placed them there; whole with `deaggregate=false`; and only what
    `filter_criteria` wants.

    settings  those of the shard's stream
    """

    shard: Shard
    placement: Placement
    settings: Settings

    @classmethod
    def of(cls, shard: Shard, ports: Ports, settings: Settings) -> ShardAsHandled:
        """Raises what Stream raises."""
        stream = ports_of_stream(ports, shard.shard_id).stream.describe()
        settings = settings_of_stream(settings, ports, shard.shard_id)
        return cls(shard, _remembered(ports).with_description(stream), settings)

    def records(self, page: Page, after: Checkpoint) -> list[UserRecord]:
        filters = self.settings.hash_range_filter is HashRangeFilter.KCL
        inside = KeysInside(self.shard.hash_key_range) if filters else None
        parts = deaggregated(page.records, inside, ALL, self._may_drop)
        found: Sequence[UserRecord] = [record for part in parts for record in not_yet_handled(part.user_records, after)]
        found = found if self.settings.deaggregate else as_put(found)
        wanted = RecordFilter(self.settings)
        return list(wanted.wanted(found, {}).records if wanted else found)

    def _may_drop(self, record: StreamRecord) -> bool:
        return why_kept(record.approximate_arrival_timestamp, self.placement) is None


def _remembered(ports: Ports) -> Placement:
    try:
        return ports.sightings.load().placement
    except LeaseTableNotFound:  # a Java KCL's application has none
        return Placement()


def as_handled_by(shard_id: str, ports: Ports, settings: Settings) -> ShardAsHandled | None:
    """None for settings by which a handler gets all user records. Raises ShardNotFound, and what Stream raises."""
    if settings.deaggregate and settings.filter_criteria is None:
        return None
    shard = next((each for each in ports.stream.list_shards() if each.shard_id == shard_id), None)
    if shard is None:
        raise ShardNotFound(f"the stream has no shard {shard_id}")
    return ShardAsHandled.of(shard, ports, settings)


def upcoming(
    shard_id: str,
    start: ReadPosition,
    after: Checkpoint,
    ports: Ports,
    reads: int | None = None,
    as_handled: ShardAsHandled | None = None,
    stop: Signal | None = None,
) -> Iterator[UserRecord]:
    """User records from `start` on, aggregates expanded, up to the shard's tip or end. Raises what Stream raises.

    after       leave out records at or before this checkpoint
    reads       how many reads to make at most, since walking an idle shard to its tip may take hundreds
    as_handled  as the handler gets them; None: all user records
    stop        read no further once this is set
    """
    reader, pause, refused = ports.stream.reader(shard_id, start), stop or ports.tasks.signal(), 0
    for read in count(1):
        page = reader.read(LIMIT)
        if isinstance(page, Refusal):
            refused += 1
            if refused == REFUSALS_MAX:
                raise StreamUnavailable(f"shard {shard_id} could not be read {refused} times in a row: {page.problem}")
        else:
            refused = 0
            yield from _records(page, after, as_handled)
            if page.is_shard_end or (not page.records and not page.millis_behind_latest):
                return
        if read == reads or pause.wait(POLL_INTERVAL):
            return


def _records(page: Page, after: Checkpoint, as_handled: ShardAsHandled | None) -> Sequence[UserRecord]:
    if as_handled is not None:
        return as_handled.records(page, after)
    return not_yet_handled(deaggregate(page.records, None).user_records, after)
