"""Finds the place of a time in each shard: the record before it. A row cannot hold the time itself, because Java reads
a time from its own configuration and not from the row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

from sublet.decisions.session.quiet import reached_by
from sublet.decisions.session.read_position import IteratorType, ReadPosition
from sublet.errors import StreamUnavailable
from sublet.operate.rules.seek import FoundPosition
from sublet.ports import Ports, Refusal
from sublet.protocol.aggregation import deaggregate
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.records import Page, StreamRecord
from sublet.protocol.shard import Shard

LOOKED_BACK = tuple(timedelta(seconds=seconds) for seconds in (2, 60, 3600, 24 * 3600))
"""How far before the time each search begins, one after the other. A last one begins at the trim horizon."""

NEAR = timedelta(seconds=10)
"""If a record is this close to the time, all records from it to the time are read."""

POLL_INTERVAL = timedelta(milliseconds=500)
"""The pause between two reads of a shard, because its other readers share the five reads a second."""

TRIM_HORIZON = ReadPosition(IteratorType.TRIM_HORIZON)
LIMIT = 1000
REFUSALS_MAX = 20
AT_ONCE = 16


def places_of(shards: Sequence[Shard], moment: datetime, ports: Ports) -> Mapping[str, FoundPosition]:
    """Returns the places by shard id. Reads each shard for some seconds, or longer where it was idle before the time.
    Raises what Stream raises.
    """
    slots = ports.tasks.slots(AT_ONCE)

    def find(shard: Shard) -> FoundPosition:
        with slots:
            return place_of(shard, moment, ports)

    asked = [(shard.shard_id, ports.tasks.spawn(partial(find, shard))) for shard in shards]
    return {shard_id: task.result() for shard_id, task in asked}


def place_of(shard: Shard, moment: datetime, ports: Ports) -> FoundPosition:
    """Finds the place by arrival times. Kinesis does not promise that they are exact or that they rise, so the first
    record at or after the time counts: a seek may repeat a record, but skips none.
    """
    empty_from = moment
    near: StreamRecord | None = None
    for start in (*(_at(moment - back) for back in LOOKED_BACK), TRIM_HORIZON):
        near = _first_before(moment, shard, start, ports)
        if near is not None:
            break
        empty_from = start.at or empty_from
    if near is None:
        return FoundPosition(None, shard.is_open or _has_any(shard, TRIM_HORIZON, ports))
    while empty_from - near.approximate_arrival_timestamp > NEAR:
        middle = near.approximate_arrival_timestamp + (empty_from - near.approximate_arrival_timestamp) / 2
        nearer = _first_before(moment, shard, _at(middle), ports)
        if nearer is None:
            empty_from = middle
        else:
            near = nearer
            if nearer.approximate_arrival_timestamp >= empty_from:
                break
    return _last_before(moment, shard, near, ports)


def _at(moment: datetime) -> ReadPosition:
    return ReadPosition(IteratorType.AT_TIMESTAMP, at=moment)


def _first_before(moment: datetime, shard: Shard, start: ReadPosition, ports: Ports) -> StreamRecord | None:
    """Returns the first record from `start` on, if it arrived before the time."""
    for page in _pages(shard, start, moment, ports):
        if page.records:
            (first, *_) = page.records
            return first if first.approximate_arrival_timestamp < moment else None
    return None


def _last_before(moment: datetime, shard: Shard, near: StreamRecord, ports: Ports) -> FoundPosition:
    """Returns the last record before the time, from `near` on, which is before it. If that is an aggregate, returns its
    last user record.
    """
    last = near
    start = ReadPosition(IteratorType.AFTER_SEQUENCE_NUMBER, near.sequence_number)
    for page in _pages(shard, start, moment, ports):
        for record in page.records:
            if record.approximate_arrival_timestamp >= moment:
                return FoundPosition(_end_of(last), has_later=True)
            last = record
        if page.is_shard_end:
            return FoundPosition(_end_of(last), has_later=False)
    after = ReadPosition(IteratorType.AFTER_SEQUENCE_NUMBER, last.sequence_number)
    return FoundPosition(_end_of(last), shard.is_open or _has_any(shard, after, ports))


def _end_of(record: StreamRecord) -> Checkpoint:
    user_records = deaggregate((record,), None).user_records
    return user_records[-1].checkpoint if user_records else Checkpoint(record.sequence_number)


def _has_any(shard: Shard, start: ReadPosition, ports: Ports) -> bool:
    return any(page.records for page in _pages(shard, start, None, ports))


def _pages(shard: Shard, start: ReadPosition, until: datetime | None, ports: Ports) -> Iterator[Page]:
    """Reads to the shard's tip or end, or to where nothing that follows arrived before `until`."""
    reader, pause = ports.stream.reader(shard.shard_id, start), ports.tasks.signal()
    refused = 0
    while True:
        page = reader.read(LIMIT)
        if isinstance(page, Refusal):
            refused += 1
            if refused == REFUSALS_MAX:
                raise StreamUnavailable(
                    f"shard {shard.shard_id} could not be read {refused} times in a row: {page.problem}"
                )
        else:
            refused = 0
            yield page
            reached = reached_by(page)
            is_there = until is not None and reached is not None and reached >= until
            if page.is_shard_end or (not page.records and (is_there or not page.millis_behind_latest)):
                return
        pause.wait(POLL_INTERVAL)
