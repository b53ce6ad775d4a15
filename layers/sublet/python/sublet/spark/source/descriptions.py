"""Decides when a query's driver describes its stream, and keeps the answer, because an account has only 20 calls of
DescribeStreamSummary a second."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from sublet.decisions.session.out_of_range_aggregates import ASK_LATEST, ask_again_after
from sublet.ports import Clock, Stream
from sublet.protocol.shard import Shard
from sublet.protocol.stream_info import NOT_DESCRIBED, Placement, StreamDescription


class Descriptions:
    """Describes the stream at the start and every five minutes, unless other processes of the application do. Asks at
    once if a listing shows another stream's shards, and a few times after a reshard, because records that the KPL then
    puts into the wrong shard are dropped only with a later description.

    shared  returns what other processes of the application have learned
    """

    def __init__(self, stream: Stream, clock: Clock, shared: Callable[[], Placement], *, filters: bool) -> None:
        """`filters`: it matters who places the records."""
        self._stream = stream
        self._clock = clock
        self._shared = shared
        self._filters = filters
        self._known = NOT_DESCRIBED
        self._due_at: datetime | None = None
        """When to ask next. None means at once."""
        self._pause: timedelta | None = ASK_LATEST
        """The pause after the next request, in the form of `ask_again_after`."""

    @property
    def last(self) -> StreamDescription:
        """Describes the stream only if nothing is known yet. Raises what Stream raises."""
        if self._known.last is None:
            self._ask()
        assert self._known.last is not None, "it has just been described"
        return self._known.last

    def placement(self, logged: Placement) -> Placement:
        """Returns who places the records that have arrived. `logged`: what the query's offsets remember. Raises what
        Stream raises.
        """
        self._known = self._known.merged(logged)
        shared, known = self._shared(), self._known.last
        self._known = self._known.merged(shared)
        if self._due_at is not None and self._known.last is not known:
            self._put_off()
        if self._due_at is None or self._clock.steady() >= self._due_at:
            self._ask()
        return self._known

    def note_listing(self, before: Mapping[str, Shard], now: Mapping[str, Shard]) -> None:
        """Compares a listing with the previous one. The first listing proves nothing."""
        if not before:
            return
        if _is_other_stream(before, now):
            self._due_at, self._known = None, Placement(None, self._known.auto_seen_at)
        elif self._filters and now.keys() - before.keys():
            self._due_at = self._pause = None

    def _ask(self) -> None:
        self._known = self._known.with_description(self._stream.describe())
        self._put_off()

    def _put_off(self) -> None:
        self._pause = ask_again_after(self._pause)
        self._due_at = self._clock.steady() + self._pause


def _is_other_stream(before: Mapping[str, Shard], now: Mapping[str, Shard]) -> bool:
    """True if the listings cannot be of the same stream: a shard never changes its first sequence number, and an open
    one does not disappear.
    """
    return any(
        shard.is_open
        if shard_id not in now
        else now[shard_id].starting_sequence_number != shard.starting_sequence_number
        for shard_id, shard in before.items()
    )
