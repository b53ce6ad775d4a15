"""A stream, several streams, one shard's records by polls or by push, and new records."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from sublet.decisions.session.push import PushEnd
    from sublet.decisions.session.read_position import ReadPosition
    from sublet.decisions.streams.chosen_streams import FoundStreams
    from sublet.protocol.records import NewRecord, Page, PutRefused
    from sublet.protocol.shard import Shard
    from sublet.protocol.stream_info import PutRecord, StreamDescription
    from sublet.protocol.stream_key import StreamKey
    from sublet.settings import StartPosition


class PollRefusal(StrEnum):
    """Why a read returned nothing. It does not change the position."""

    THROTTLED = "throttled"
    """The shard's read limit is used up: 5 calls or 2 MB a second, shared by all its consumers. Read again later."""
    ITERATOR_EXPIRED = "iterator_expired"
    """An iterator lives 300 s. The next read opens a new one after the last record that was fetched."""
    NOT_YET = "not_yet"
    """A push has brought nothing within the time that a read waits. Read again at once: the read waits, not the
    caller.
    """
    NOT_PUSHED = "not_pushed"
    """The push's consumer is not registered any more. From the next read on, this reader polls."""

    @property
    def problem(self) -> str:
        return self.value


class Unanswered(Struct, frozen=True):
    """A read or a call got no answer: the service failed, or its answer was lost or incomplete. Try again later.
    `problem`: what was met, in its own words.
    """

    problem: str


Refusal = PollRefusal | Unanswered
"""Why a read returned no page."""


class Stream(Protocol):
    """One Kinesis stream. Raises StreamNotFound, ShardNotFound, StreamKeyUnavailable, StreamAccessDenied,
    StreamUnavailable.
    """

    def list_shards(self, at: StartPosition | None = None) -> tuple[Shard, ...]:
        """Every listed shard, closed ones included; with `at`, those open at that position (ListShards'
        ShardFilter).
        """

    def describe(self) -> StreamDescription:
        """The stream's identity and how it places records. StreamAccessDenied if only this call is not permitted. An
        account may call it 20 times a second, for all its streams and consumers together: call it seldom.
        """

    def has_shard(self, shard_id: str) -> bool:
        """Whether the service still has the shard. Asks for that shard itself, since a listing may lag."""

    def service_time(self) -> datetime:
        """A time by the service's own clock, at most a second or two ago and never in its future: nothing that arrives
        from now on arrives before it. A worker's clock may be ahead, and a LATEST lease pinned by it would skip what
        arrives meanwhile.
        """

    def reader(self, shard_id: str, position: ReadPosition) -> ShardReader:
        """Makes no call to the service until the reader is opened or read."""


class Streams(Protocol):
    """The streams of an application that reads several (`protocol.stream_key`). Raises what Stream raises."""

    def find(self, known: Collection[StreamKey] = ()) -> FoundStreams:
        """Which streams the setting `streams` names now. Some calls for the whole account: find them seldom.

        A stream that has to be described by itself, as those of other accounts have, may be refused while the others
        are not. If it is one of those `known` from before, it counts as it was then.
        """

    def of(self, stream: StreamKey) -> Stream:
        """One of the streams, whether it exists or not. Its shards are named as in the application, and StreamNotFound
        also means that there is another stream of its name. Makes no call.
        """

    def arn(self, stream: StreamKey) -> str:
        """Makes no call."""


class ShardReader(Protocol):
    """One shard's records from a position on, in order. Raises what Stream raises, and CheckpointNotInStream.

    It reads by polls (`reading.polling`) or by a push (`reading.pushing`). It keeps its position whatever is refused.
    """

    def open(self) -> None:
        """Prepare to read, as the first read otherwise does: this does not count against the shard's read limit."""

    def read(self, limit: int) -> Page | Refusal:
        """The next page, of at most `limit` stream records. An empty one is normal, even far behind the tip; do not
        read after one that `is_shard_end`.
        """


class PushReader(ShardReader, Protocol):
    """A ShardReader to which records are sent as they arrive. One thread at a time reads, and another may interrupt
    it.
    """

    def wait(self, longest: timedelta) -> bool:
        """Wait until something has come, or for `longest`, or until interrupted. Returns whether a read will find
        something, which may be that the service refuses. Only after that is memory for one page needed.
        """

    @property
    def is_polling(self) -> bool:
        """True once it polls, because the consumer is gone or to make sure of the shard's end. Its caller then has to
        pace its reads.
        """

    @property
    def as_of(self) -> datetime | None:
        """No later than the moment at which the service sent the last page, by this machine's wall clock. None while
        polling. A page may have waited here while a handler was busy, and its lag is as of then.
        """

    def interrupt(self) -> None:
        """End the subscription and every wait, at once and for good. Any thread may call it, also in a signal handler:
        it takes no lock and raises nothing.
        """

    def close(self) -> None:
        """Free what is held. No thread reads or waits any more."""


class Pushed(NamedTuple):
    """One event of a subscription. `continuation`: the sequence number after which the next subscription goes on; None
    at the shard's end, whose children `page` then names, as far as the service did.
    """

    page: Page
    continuation: str | None


class ShardSubscription(Protocol):
    """One SubscribeToShard, for as long as it lasts."""

    def wait(self, longest: timedelta) -> bool:
        """Wait until something has come, its end included, or for `longest`. Returns whether something has."""

    def next(self) -> Pushed | PushEnd | Unanswered:
        """The next event, of which some bytes have come, or why there is none. Raises what Stream raises."""

    @property
    def has_more(self) -> bool:
        """Whether more bytes have come than those of the events that were taken. Does not wait."""

    def interrupt(self) -> None:
        """End it and every wait at once. Takes no lock, raises nothing."""

    def close(self) -> None:
        """Free what it holds. No thread uses it any more."""


class Pushes(Protocol):
    """SubscribeToShard, as one registered consumer. Raises what Stream raises, and CheckpointNotInStream."""

    def subscribe(self, shard_id: str, position: ReadPosition) -> ShardSubscription | PushEnd | Unanswered:
        """Begin a subscription. At most one call a second for a shard."""


class RecordWriter(Protocol):
    """Puts records into one stream. Safe for threads."""

    def put(self, records: Sequence[NewRecord]) -> list[PutRecord | PutRefused]:
        """Call PutRecords once, without retries. Returns for each record where it was stored, or why it may not have
        been. If the reply is lost, all records count as refused, though some may be stored. A record may be refused and
        a later one stored.

        Raises StreamNotFound, StreamKeyUnavailable, StreamAccessDenied, and RecordRefused if the service will never
        accept the call and does not say which records are to blame.
        """
