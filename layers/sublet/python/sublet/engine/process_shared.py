"""What all lease sessions of a process share: the memory budget, the waits of quiet shards, and what is known about
strays.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from sublet.decisions.session.out_of_range_aggregates import KeptBecause, ask_again_after, why_kept
from sublet.decisions.session.record_filter import RecordFilter
from sublet.engine.calls.call_limits import CallGuard
from sublet.engine.control_watch import ControlWatch
from sublet.errors import CallFailed
from sublet.handler import Handler
from sublet.ports import Ports, Signal, Tasks
from sublet.protocol.records import StreamRecord
from sublet.protocol.stream_info import Placement
from sublet.protocol.stream_key import StreamKey, stream_key_of
from sublet.settings import Settings

FORGET_AFTER = timedelta(minutes=10)
"""After this long without a description of the stream, the pauses between descriptions start from the shortest
again.
"""

WAITED_FOR = timedelta(seconds=2)
"""How long an aggregate waits for an answer. Strays arrive within seconds of a reshard. If one is kept because no
answer came, its records are handled twice and out of order.
"""


@dataclass(frozen=True, slots=True)
class PageSize:
    bytes: int
    records: int


NO_PAGE = PageSize(0, 0)


class Budget:
    """Memory for pages that are fetched and not handled yet, shared by all leases of a process."""

    def __init__(self, max_bytes: int, max_records: int, tasks: Tasks):
        self._lock = tasks.lock()
        """Guards both figures."""
        self._bytes = max_bytes
        self._records = max_records

    def take(self, size: PageSize) -> bool:
        with self._lock:
            if size.bytes > self._bytes or size.records > self._records:
                return False
            self._bytes -= size.bytes
            self._records -= size.records
            return True

    def free(self, size: PageSize) -> None:
        if size is NO_PAGE:
            return
        with self._lock:
            self._bytes += size.bytes
            self._records += size.records


class QuietShards:
    """Where the readers of quiet shards wait: until the next poll is due, or until a caller wants records now.

    Safe for threads without a lock: each waiting thread adds and removes its own signal. `asked_at`: when a caller last
    began to wait for records, by the steady clock.
    """

    def __init__(self, tasks: Tasks) -> None:
        self.asked_at: datetime | None = None
        self._tasks = tasks
        self._waiting: dict[Signal, None] = {}

    def ask(self, now: datetime) -> None:
        """A caller begins to wait for records. Wakes every waiting shard, which then computes when its poll is due."""
        self.asked_at = now
        for waiting in list(self._waiting):
            waiting.set()

    def wait(self, duration: timedelta, stop: Signal, seen: datetime | None) -> None:
        """Wait for `duration`, or until `stop` is set or `asked_at` differs from `seen`."""
        over = self._tasks.signal()
        self._waiting[over] = None
        forget = stop.on_set(over.set)
        try:
            if self.asked_at == seen:
                over.wait(duration)
        finally:
            forget()
            del self._waiting[over]


class StrayAggregates:
    """Aggregates outside their shard's hash key range. When one arrives, asks the stream whether it may be dropped."""

    def __init__(self, ports: Ports) -> None:
        self._stream, self._clock, self._tasks, self._log = ports.stream, ports.clock, ports.tasks, ports.log
        self._lock = ports.tasks.lock()
        """Guards all fields below. Held while the stream is described, so that one question serves every lease."""
        self._known = Placement()
        self._pause: timedelta | None = None
        self._asked_at: datetime | None = None
        self._logged: KeptBecause | None = None

    @property
    def auto_seen_at(self) -> datetime | None:
        return self._known.auto_seen_at

    def note_auto(self, seen_at: datetime | None) -> None:
        """`seen_at`: when a description of the stream last said AUTO, as the lease manager remembers it."""
        with self._lock:
            self._known = self._known.with_auto_seen(seen_at)

    def may_drop(self, record: StreamRecord) -> bool:
        """Whether this aggregate, which is out of range, was put into the wrong shard: then its producer sends it
        again.
        """
        arrived = record.approximate_arrival_timestamp
        with self._lock:
            why = why_kept(arrived, self._known)
            while why is KeptBecause.NOT_DESCRIBED and self._may_ask():
                self._ask()
                why = why_kept(arrived, self._known)
            if why is not None and why is not self._logged:
                self._log.warning(
                    "aggregates outside their shard's hash key range are kept",
                    why=why.value,
                    sequence_number=record.sequence_number,
                )
            self._logged = why or self._logged
            return why is None

    def _may_ask(self) -> bool:
        """Waits if the next question is due soon: Kinesis gives its time in whole seconds, so an answer may seem older
        than the record that it is about.
        """
        now = self._clock.steady()
        if self._asked_at is not None and now - self._asked_at > FORGET_AFTER:
            self._pause = None
        if self._asked_at is None or self._pause is None:
            return True
        due_in = self._asked_at + self._pause - now
        if due_in > WAITED_FOR:
            return False
        if due_in > timedelta(0):
            self._tasks.signal().wait(due_in)
        return True

    def _ask(self) -> None:
        """If the stream refuses, nothing is known and nothing is dropped."""
        self._pause, self._asked_at = ask_again_after(self._pause), self._clock.steady()
        try:
            self._known = self._known.with_description(self._stream.describe())
        except CallFailed as problem:
            self._log.warning("stream's record distribution unknown", problem=str(problem))


class NamedLocks:
    """Locks by name that are never waited for: `take` returns False if the name is taken."""

    def __init__(self, tasks: Tasks) -> None:
        self._lock = tasks.lock()
        """Guards `_held`."""
        self._held: set[str] = set()

    def take(self, name: str) -> bool:
        with self._lock:
            is_free = name not in self._held
            self._held.add(name)
            return is_free

    def free(self, name: str) -> None:
        with self._lock:
            self._held.discard(name)


@dataclass(frozen=True, slots=True)
class ProcessShared:
    """One for each process, over all its windows.

    watch           what an operator has ordered
    asks            before a lease is stolen, its owner is asked to release it
    deaggregation   guards no field: it lets one lease at a time take aggregates apart. Each MD5 releases the
                    interpreter, and threads that take it from each other thousands of times a second cost a fifth of
                    all CPU
    """

    ports: Ports
    handler: Handler
    settings: Settings
    budget: Budget
    quiet: QuietShards
    guard: CallGuard
    wanted: RecordFilter
    strays: StrayAggregates
    deaggregation: AbstractContextManager[object]
    watch: ControlWatch
    asks: bool = False
    decode: Callable[[bytes], Any] | None = None
    """By the setting `payload_format`; None without it, and then nothing is paid for it."""
    by_stream: dict[StreamKey, ProcessShared] = field(default_factory=dict)
    """The results of `of_stream`, in an application of several streams."""

    def note_auto(self, seen_at: datetime | None) -> None:
        """See `StrayAggregates.note_auto`. With several streams, the latest time counts for all of them: at worst, a
        stray is kept.
        """
        for shared in (self, *self.by_stream.values()):
            shared.strays.note_auto(seen_at)

    def of_stream(self, lease_key: str) -> ProcessShared:
        """What the sessions of this lease's stream share: its name, ARN, start position and strays. The limits remain
        those of the whole process.
        """
        key = None if self.ports.streams is None else stream_key_of(lease_key)
        if key is None:
            return self
        if key not in self.by_stream:
            from sublet.reading.several_streams import ports_of_stream, settings_of_stream  # noqa: PLC0415 - would add to every start

            settings = settings_of_stream(self.settings, self.ports, lease_key)
            ports = ports_of_stream(self.ports, lease_key)
            strays = StrayAggregates(ports)
            strays.note_auto(self.strays.auto_seen_at)
            made = replace(self, ports=ports, settings=settings, wanted=RecordFilter(settings), strays=strays)
            self.by_stream.setdefault(key, made)
        return self.by_stream[key]
