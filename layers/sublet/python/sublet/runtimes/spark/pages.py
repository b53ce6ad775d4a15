"""Pages of one shard, in order: at its pace, with refused polls repeated and expired iterators opened anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from sublet.decisions.resume import ReadPosition, after
from sublet.decisions.window import throttled_until
from sublet.errors import StreamUnavailable
from sublet.ports import Clock, Log, PollRefusal, Stream
from sublet.protocol.records import Page
from sublet.protocol.stream_identity import StreamIdentity
from sublet.runtimes.spark.pace import Pace, Sleep


class IdentifiedStream(Stream, Protocol):
    """A stream that tells itself from another of its name."""

    def identity(self) -> StreamIdentity:
        """Raises what Stream raises."""


@dataclass(frozen=True, slots=True)
class Connection:
    """One process's way to a stream. `patience`: how long refusals of one poll are waited out."""

    stream: IdentifiedStream
    pace: Pace
    clock: Clock
    sleep: Sleep
    log: Log
    patience: timedelta


def read_pages(
    connection: Connection,
    shard_id: str,
    position: ReadPosition,
    limit: int,
    *,
    first_call_waited: bool = False,
) -> Iterator[Page]:
    """Each page from the position on; endless, with empty pages at the tip, until the shard's end (the page that has no
    next iterator is the last).

    first_call_waited   the driver has waited for this task's first call
    Raises what Stream raises, and StreamUnavailable when one poll was refused for longer than our patience.
    """
    stream, clock = connection.stream, connection.clock
    iterator: str | None = None
    refusals, last_page_at = 0, clock.now()
    while True:
        if iterator is None:
            iterator = stream.open(shard_id, position)
        if first_call_waited:
            connection.pace.count_call(shard_id)
        else:
            connection.pace.wait_for_call(shard_id)
        first_call_waited = False
        reply = stream.poll(iterator, limit)
        if isinstance(reply, PollRefusal):
            refusals += 1
            if clock.now() - last_page_at > connection.patience:
                raise StreamUnavailable(
                    f"polls of shard {shard_id} were refused ({reply}) {refusals} times in {connection.patience}: "
                    "too many consumers on its 2 MB a second, or Kinesis is failing"
                )
            if reply is PollRefusal.ITERATOR_EXPIRED:
                iterator = None
            else:
                connection.sleep(throttled_until(clock.now(), refusals) - clock.now())
            continue
        connection.pace.count_bytes(shard_id, page_bytes(reply))
        if reply.records:
            position = after(reply.records[-1].sequence_number)
        iterator, refusals = reply.next_iterator, 0
        yield reply
        last_page_at = clock.now()
        if iterator is None:
            return


def page_bytes(page: Page) -> int:
    """What the page counts against the read limit: data and partition keys."""
    return sum(len(record.data) + len(record.partition_key) for record in page.records)
