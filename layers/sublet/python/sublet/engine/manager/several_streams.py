"""What a process knows of an application's several streams from tick to tick: which streams there are, and their
shards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from sublet.decisions.manager.shard_sync import NewLease
from sublet.decisions.patience import may_pass
from sublet.decisions.streams.by_stream import ListedStream, by_stream
from sublet.decisions.streams.chosen_streams import ChosenStream, FoundStreams, KnownStream, to_note
from sublet.engine.lease.steps import create_leases
from sublet.engine.manager.kinesis_call_pacing import PacedStream, Pacer
from sublet.errors import (
    CallFailed,
    StreamAccessDenied,
    StreamNotFound,
    StreamUnavailable,
)
from sublet.ports import Ports, Stream
from sublet.protocol.shard import Shard
from sublet.protocol.stream_key import StreamKey, stream_key_of
from sublet.settings import Settings, StartPosition

T = TypeVar("T")

LISTED_EVERY = timedelta(minutes=2)
"""How often KCL looks for shards without a lease. Workers create the leases of children themselves."""

LISTED_AGAIN_MAX, DESCRIBED_MAX = 30, 6
"""How many streams one tick lists. 200 new streams are listed at once, because none of their leases is probed yet."""

NEW_MAX = 200
DESCRIBED_EVERY = timedelta(minutes=5)
AT_ONCE = 8
NOTED_IN_A_ROW = 25
"""Notes of streams that are written one after the other. Those of 200 new streams, and their leases, would take seconds
so.
"""


@dataclass(frozen=True, slots=True)
class _StreamListing:
    shards: tuple[Shard, ...]
    at: datetime


class StreamWatch:
    """What one process knows about the streams. Not thread-safe: its ticks do not overlap."""

    def __init__(self, ports: Ports, settings: Settings) -> None:
        assert ports.streams is not None, "of an application of several streams"
        self.pacer = Pacer(ports.clock, ports.tasks)
        self._streams, self._sightings = ports.streams, ports.sightings
        self._clock, self._tasks, self._log = ports.clock, ports.tasks, ports.log
        self._create_leases = partial(create_leases, ports=ports)
        self._settings = settings
        self._found: FoundStreams | None = None
        self._found_at: datetime | None = None
        self._listings: dict[StreamKey, _StreamListing] = {}

    def look(
        self, leased: frozenset[StreamKey], known: Mapping[StreamKey, KnownStream], now: datetime
    ) -> tuple[ListedStream, ...]:
        """The streams to read, without those that are gone. Some were listed by an earlier tick: their `is_listed_now`
        is False.

        leased  streams with a lease, by this tick's scan
        known   as remembered; what has changed is written
        now     by the lease table's clock

        Raises what Streams raises if no stream can be listed.
        """
        found = self._find(known)
        noted = dict(to_note(found.streams, known, now, self._settings.former_streams_wait))
        known = {**known, **noted}
        due = self._due(found.streams)
        answers = self._make_all([partial(self._list, each, each.stream in leased) for each in due])
        self._raise_if_all_failed(answers)
        for each, answer in zip(due, answers, strict=True):
            noted.update(self._keep(each.stream, answer, known, now))
        known = {**known, **noted}
        noted.update(self._describe(found.streams, known))
        self._note(noted)
        listed_now = {each.stream for each, answer in zip(due, answers, strict=True) if isinstance(answer, tuple)}
        gone = {stream for stream, each in {**known, **noted}.items() if each.gone_at is not None}
        return tuple(
            ListedStream(each.stream, self._shards(each.stream), self._start(each), each.stream in listed_now)
            for each in found.streams
            if each.stream not in gone
        )

    def create(self, leases: Iterable[NewLease]) -> int:
        """The leases of each stream in their order, and several streams at once. Returns how many we created."""
        parts = by_stream((new.lease.lease_key, new) for new in leases).values()
        return sum(self._make_all([partial(self._create_leases, part) for part in parts]))

    def is_there(self, lease_key: str) -> bool:
        """Whether the lease's stream still exists. Another stream of the same name does not count, because its shards
        say nothing about the lease. Called before a lease is deleted.
        """
        stream = stream_key_of(lease_key)
        assert stream is not None, "of an application of several streams"
        try:
            self._paced(stream).describe()
        except CallFailed as problem:
            self._log.warning(
                "a lease is not deleted: its stream is not described",
                lease_key=lease_key,
                problem=str(problem),
            )
            return False
        return True

    def _find(self, known: Mapping[StreamKey, KnownStream]) -> FoundStreams:
        now, again_after = self._clock.steady(), self._settings.stream_discovery_interval
        if self._found is not None and self._found_at is not None and now - self._found_at < again_after:
            return self._found
        try:
            found = self._streams.find([stream for stream, each in known.items() if each.gone_at is None])
        except CallFailed as problem:
            if self._found is None or not may_pass(problem):
                raise
            self._log.warning("could not search for streams", problem=str(problem))
            return self._found
        self._log_changes(found, known)
        self._found, self._found_at = found, now
        return found

    def _log_changes(self, found: FoundStreams, known: Mapping[StreamKey, KnownStream]) -> None:
        before = None if self._found is None else {each.stream for each in self._found.streams}
        streams = {each.stream for each in found.streams}
        for stream in sorted(streams - (known.keys() if before is None else before)):
            self._log.info("stream found", stream=str(stream))
        for stream in sorted((before or set()) - streams):
            self._listings.pop(stream, None)
            self._log.warning(
                "a stream no longer exists, or the setting streams does not name it: its leases wait",
                stream=str(stream),
            )
        if found.missing and (self._found is None or self._found.missing != found.missing):
            self._log.warning("the setting streams names streams that do not exist", streams=list(found.missing))

    def _due(self, streams: Iterable[ChosenStream]) -> list[ChosenStream]:
        """The streams to list in this tick: new ones, and those whose listing is the oldest."""
        now = self._clock.steady()
        streams = tuple(streams)
        new = [each for each in streams if each.stream not in self._listings]
        old = [
            each
            for each in streams
            if each.stream in self._listings and now - self._listings[each.stream].at >= LISTED_EVERY
        ]
        old.sort(key=lambda each: self._listings[each.stream].at)
        return new[:NEW_MAX] + old[:LISTED_AGAIN_MAX]

    def _list(self, chosen: ChosenStream, is_leased: bool) -> tuple[Shard, ...] | CallFailed:
        """The stream's shards, or the error. StreamNotFound only if Kinesis does not describe the stream either."""
        stream = self._paced(chosen.stream)
        try:
            return stream.list_shards(at=None if is_leased else self._start(chosen))
        except StreamNotFound as problem:
            return self._confirmed(stream, problem)
        except CallFailed as problem:
            return problem

    def _confirmed(self, stream: Stream, not_found: StreamNotFound) -> CallFailed:
        try:
            stream.describe()
        except CallFailed as problem:
            return problem
        return StreamUnavailable(f"{not_found}; but Kinesis describes it")

    def _raise_if_all_failed(self, answers: Sequence[tuple[Shard, ...] | CallFailed]) -> None:
        problems = [answer for answer in answers if isinstance(answer, CallFailed)]
        if problems and len(problems) == len(answers) and not self._listings:
            unexpected = [each for each in problems if not isinstance(each, StreamNotFound)]
            if unexpected:
                raise unexpected[0]

    def _keep(
        self,
        stream: StreamKey,
        answer: tuple[Shard, ...] | CallFailed,
        known: Mapping[StreamKey, KnownStream],
        now: datetime,
    ) -> Mapping[StreamKey, KnownStream]:
        """What to write about the stream; empty if nothing has changed."""
        before = known.get(stream, KnownStream(now))
        if isinstance(answer, tuple):
            self._listings[stream] = _StreamListing(answer, self._clock.steady())
            return {} if before.gone_at is None else {stream: replace(before, gone_at=None)}
        if isinstance(answer, StreamNotFound) and before.gone_at is None:
            self._log.warning("stream is gone: its leases are not dispatched", stream=str(stream), problem=str(answer))
            return {stream: replace(before, gone_at=now)}
        if not isinstance(answer, StreamNotFound):
            self._log.warning("could not list a stream's shards", stream=str(stream), problem=str(answer))
        return {}

    def _describe(
        self, streams: Iterable[ChosenStream], known: Mapping[StreamKey, KnownStream]
    ) -> Mapping[StreamKey, KnownStream]:
        """Describes the few streams whose descriptions are the oldest, to see whether Kinesis places their records
        itself.
        """
        now = self._clock.now()
        ages = {
            each.stream: None if (last := known[each.stream].placement.last) is None else now - last.at
            for each in streams
            if known[each.stream].gone_at is None
        }
        due = [stream for stream, age in ages.items() if age is None or age >= DESCRIBED_EVERY]
        due.sort(key=lambda stream: ages[stream] or timedelta.max, reverse=True)
        due = due[:DESCRIBED_MAX]
        found = self._make_all([partial(self._described, stream, known[stream]) for stream in due])
        return {stream: each for stream, each in zip(due, found, strict=True) if each is not None}

    def _described(self, stream: StreamKey, known: KnownStream) -> KnownStream | None:
        try:
            description = self._paced(stream).describe()
        except StreamAccessDenied:
            return None
        except CallFailed as problem:
            self._log.warning("could not describe a stream", stream=str(stream), problem=str(problem))
            return None
        return replace(known, placement=known.placement.with_description(description))

    def _note(self, noted: Mapping[StreamKey, KnownStream]) -> None:
        streams = [*noted.items()]
        parts = [dict(streams[at : at + NOTED_IN_A_ROW]) for at in range(0, len(streams), NOTED_IN_A_ROW)]
        self._make_all([partial(self._sightings.keep_streams, part) for part in parts])

    def _paced(self, stream: StreamKey) -> Stream:
        return PacedStream(self._streams.of(stream), self.pacer.wait)

    def _make_all(self, calls: Sequence[Callable[[], T]]) -> list[T]:
        """Makes AT_ONCE of the calls at a time. If some of them fail, raises the error of the first, once all have
        ended.
        """
        slots = self._tasks.slots(AT_ONCE)

        def made(call: Callable[[], T]) -> T:
            with slots:
                return call()

        started = [self._tasks.spawn(partial(made, call)) for call in calls]
        found: list[T] = []
        problems: list[Exception] = []
        for task in started:
            try:
                found.append(task.result())
            except CallFailed as problem:
                problems.append(problem)
        if problems:
            raise problems[0]
        return found

    def _shards(self, stream: StreamKey) -> tuple[Shard, ...]:
        listing = self._listings.get(stream)
        return () if listing is None else listing.shards

    def _start(self, chosen: ChosenStream) -> StartPosition:
        return chosen.start or self._settings.start_position
