"""The records that come next in a shard, read without a lease and without moving anything."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from sublet.decisions.read_position import ReadPosition, not_yet_handled
from sublet.errors import StreamUnavailable
from sublet.ports import PollRefusal, Ports
from sublet.protocol.aggregation import deaggregate
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.records import UserRecord

POLL_INTERVAL = timedelta(milliseconds=500)
"""Between two reads: the shard's other readers share five a second."""

LIMIT = 100
REFUSALS_MAX = 20


def upcoming(shard_id: str, start: ReadPosition, after: Checkpoint, ports: Ports) -> Iterator[UserRecord]:
    """User records from `start` on, aggregates expanded, up to the shard's tip or end. Raises what Stream raises.

    after  leaves out what is at or before this checkpoint
    """
    reader, pause, refused = ports.stream.reader(shard_id, start), ports.tasks.signal(), 0
    while True:
        page = reader.read(LIMIT)
        if isinstance(page, PollRefusal):
            refused += 1
            if refused == REFUSALS_MAX:
                raise StreamUnavailable(
                    f"shard {shard_id} could not be read {refused} times in a row: {page.value}"
                )
        else:
            refused = 0
            yield from not_yet_handled(list(deaggregate(page.records, None).user_records), after)
            if page.is_shard_end or (not page.records and not page.millis_behind_latest):
                return
        pause.wait(POLL_INTERVAL)
