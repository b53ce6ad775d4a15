"""Looks at applications again and again, as `sublet status --probe` does, and keeps what Prometheus is to be shown.

A scrape makes no call: what an exporter costs depends on how often it looks, and not on who asks it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sublet.decisions.session.read_position import ReadPosition
from sublet.errors import SubletError
from sublet.metric_names import OF_EXPORTER, Attribute
from sublet.operate.exporter.samples import application_samples
from sublet.operate.status_watch import Watch
from sublet.ports import Clock, Ports, ShardReader
from sublet.reading.polling import PollingReader
from sublet.runtimes.scraped_metrics import Sample

RETENTION_LASTS = timedelta(minutes=10)
"""An operator may raise it just because records are about to be lost."""

STALE_AFTER = timedelta(minutes=5)
"""Or three looks' time: older values are not shown as the present ones."""


class Looked(NamedTuple):
    """How to look at an application: `watch`, and how to ask for its stream's retention, None if that is not known."""

    watch: Watch
    retention: Callable[[], timedelta | None]


Opens = Callable[["Calls"], Looked]
"""Finds the application, with the ports wrapped by these calls. May raise SubletError, and is then asked again."""


class Calls:
    """Counts the calls to AWS by operation. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}

    def count(self, operation: str) -> None:
        with self._lock:
            self._counts[operation] = self._counts.get(operation, 0) + 1

    @property
    def counts(self) -> dict[str, int]:
        with self._lock:
            return dict(self._counts)

    def of(self, ports: Ports) -> Ports:
        return replace(
            ports,
            table=_Counted(ports.table, self, {"scan": "Scan", "get": "GetItem"}),
            sightings=_Counted(ports.sightings, self, {"load": "Scan"}),
            stream=_Counted(
                ports.stream,
                self,
                {
                    "list_shards": "ListShards",
                    "describe": "DescribeStreamSummary",
                    "open": "GetShardIterator",
                    "poll": "GetRecords",
                },
            ),
        )


class _Counted:
    """A port whose named methods count. Everything else is passed on."""

    def __init__(self, real: Any, calls: Calls, operations: dict[str, str]) -> None:
        self._real, self._calls, self._operations = real, calls, operations

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        operation = self._operations.get(name)
        if operation is None:
            return found

        def counted(*arguments: object, **named: object) -> object:
            self._calls.count(operation)
            return found(*arguments, **named)

        return counted

    def reader(self, shard_id: str, position: ReadPosition) -> ShardReader:
        """Of several streams, whose readers are those of each, only the reader itself counts."""
        if hasattr(self._real, "poll"):
            return PollingReader(self, shard_id, position)
        self._calls.count("GetShardIterator")
        reader: ShardReader = self._real.reader(shard_id, position)
        return reader


@dataclass(slots=True)
class ExportedApplication:
    """One application. `stream`: None if it reads several."""

    application: str
    stream: str | None
    opens: Opens
    clock: Clock
    say: Callable[[str], object]
    stale_after: timedelta = STALE_AFTER
    _looked: Looked | None = None
    _calls: Calls = field(default_factory=Calls)
    _samples: Sequence[Sample] = ()
    _problem: str | None = None
    _took: timedelta = timedelta(0)
    _at: datetime | None = None
    """When the last look ended."""
    _retention: tuple[timedelta | None, datetime] | None = None

    def look(self) -> None:
        """Looks once. After a failure the application has no values but `sublet_exporter_up`, which is 0: an old lag
        would look like the present one.
        """
        began, problem = self.clock.steady(), None
        try:
            if self._looked is None:
                self._looked = self.opens(self._calls)
            found = self._looked.watch.look(self._current_retention(self._looked))
            self._samples = tuple(application_samples(found, self.application, self.stream))
        except SubletError as failed:
            self._samples, problem = (), f"{type(failed).__name__}: {failed}"
        except Exception as fault:  # noqa: BLE001 - the other applications are looked at whatever this one's table has
            self._samples, problem = (), f"an error of sublet: {type(fault).__name__}: {fault}"
        self._at = self.clock.steady()
        self._took = self._at - began
        if problem != self._problem:
            self.say(f"{self.application}: {problem or 'can be looked at again'}")
            self._problem = problem

    def _current_retention(self, looked: Looked) -> timedelta | None:
        now = self.clock.steady()
        if self._retention is None or now - self._retention[1] >= RETENTION_LASTS:
            self._retention = looked.retention(), now
        return self._retention[0]

    def samples(self) -> Iterator[Sample]:
        named = {Attribute.APPLICATION.value: self.application}
        is_fresh = self._at is not None and self.clock.steady() - self._at <= self.stale_after
        if is_fresh:
            yield from self._samples
        yield Sample(*OF_EXPORTER["up"], named, float(is_fresh and self._problem is None))
        yield Sample(*OF_EXPORTER["look_duration"], named, self._took.total_seconds())
        for operation, count in self._calls.counts.items():
            yield Sample(*OF_EXPORTER["calls"], {**named, "operation": operation}, count)


def look_forever(
    application: ExportedApplication,
    every: timedelta,
    clock: Clock,
    wait: Callable[[timedelta], bool],
    done: Callable[[], object] = lambda: None,
) -> None:
    """Looks at it, and again after `every`. `wait` returns True when it is to end. `done`: called after each look."""
    due: datetime = clock.steady()
    while True:
        application.look()
        done()
        due = max(due + every, clock.steady())
        if wait(due - clock.steady()):
            return
