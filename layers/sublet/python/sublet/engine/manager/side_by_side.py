"""Reads pages of many shards at once, until each has answered or the time is over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from sublet.decisions.manager.probe import Probe
from sublet.errors import CallFailed, ShardNotFound, TransientError
from sublet.metric_names import Metric
from sublet.ports import Ports, Refusal, ShardReader
from sublet.protocol.lease import Lease


@dataclass(frozen=True, slots=True)
class ReadBounds:
    """at_once   shards that are read at the same time
    limit     records of a page
    pages     of a shard, at most
    pause     between two pages of a shard
    lasts     the time for all shards together; calls that are under way then still finish
    is_enough whether a probe needs no further page
    """

    at_once: int
    limit: int
    pages: int
    pause: timedelta
    lasts: timedelta
    is_enough: Callable[[Probe], bool]


class SideBySide:
    """One look into many shards."""

    def __init__(self, ports: Ports, bounds: ReadBounds) -> None:
        self._clock, self._tasks, self._metrics, self._log = ports.clock, ports.tasks, ports.metrics, ports.log
        self._bounds = bounds
        self._is_refused = False
        """Kinesis refused a shard with a permanent error, so no other shard is asked."""

    def read(
        self, probes: Mapping[str, Probe], readers: Mapping[str, ShardReader]
    ) -> tuple[Mapping[str, Probe], frozenset[str]]:
        """The probes as far as they have come, and the keys of those whose readers failed. Each shard has a probe and a
        reader of the same key. An empty page that lags is no answer, so its shard is read further.
        """
        ends = self._clock.steady() + self._bounds.lasts
        found, failed = dict(probes), set[str]()
        for turn in range(self._bounds.pages):
            pending = [key for key in readers if key not in failed and not self._bounds.is_enough(found[key])]
            is_over = self._is_refused or self._clock.steady() >= ends
            if not pending or is_over:
                break
            if turn and self._tasks.signal().wait(self._bounds.pause):
                break
            for pages in self._round(pending, found, readers, ends):
                found.update({key: probe for key, probe in pages.items() if probe is not None})
                failed.update(key for key, probe in pages.items() if probe is None)
        return found, frozenset(failed)

    def _round(
        self,
        pending: Sequence[str],
        probes: Mapping[str, Probe],
        readers: Mapping[str, ShardReader],
        ends: datetime,
    ) -> Sequence[Mapping[str, Probe | None]]:
        """Reads a page of each shard. Every task reads its part of the shards one after the other."""
        parts = [pending[first :: self._bounds.at_once] for first in range(min(self._bounds.at_once, len(pending)))]
        if len(parts) == 1:
            return [self._part(parts[0], probes, readers, ends)]
        tasks = [self._tasks.spawn(partial(self._part, part, probes, readers, ends)) for part in parts]
        return [task.result() for task in tasks]

    def _part(
        self,
        part: Sequence[str],
        probes: Mapping[str, Probe],
        readers: Mapping[str, ShardReader],
        ends: datetime,
    ) -> Mapping[str, Probe | None]:
        read: dict[str, Probe | None] = {}
        for key in part:
            if self._is_refused or self._clock.steady() >= ends:
                break
            read[key] = self._next_page(probes[key], readers[key])
        return read

    def _next_page(self, probe: Probe, reader: ShardReader) -> Probe | None:
        """Returns None if there is no further page, the shard's read limit is used up by its readers, or it cannot be
        read.
        """
        try:
            page = reader.read(self._bounds.limit)
        except CallFailed as refused:
            if not isinstance(refused, TransientError | ShardNotFound) and not self._is_refused:
                self._is_refused = True
                self._report_refusal(probe.lease, refused)
            return None
        return None if isinstance(page, Refusal) else probe.after(page, self._clock.now())

    def _report_refusal(self, lease: Lease, refused: CallFailed) -> None:
        """Logs and counts a permanent refusal. Callers leave out shards that are gone, which the cleanup finds."""
        self._metrics.put(Metric.READS_REFUSED, 1, shard_id=lease.shard_id)
        self._log.error(
            "could not probe a shard",
            shard_id=lease.shard_id,
            error=type(refused).__name__,
            problem=str(refused),
        )
