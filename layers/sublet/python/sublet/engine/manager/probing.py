"""Probes shards whose rows do not show whether records wait there. This is a tick's last step, so no other step waits
for it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType

from sublet.decisions.manager.probe import Probe, ProbeResult
from sublet.decisions.manager.unread_shards import (
    ProbeSelection,
    StandsStill,
    UnreadShard,
    first_probes,
    remembered,
    stand_still,
)
from sublet.decisions.session.control import not_merely_paused
from sublet.decisions.session.quiet import MILLISECOND
from sublet.engine.manager.side_by_side import ReadBounds, SideBySide
from sublet.engine.session.metrics import STANDS_STILL_AFTER
from sublet.errors import CallFailed
from sublet.metric_names import Metric
from sublet.ports import Ports
from sublet.protocol.lease import Lease
from sublet.protocol.stream_key import is_of_several
from sublet.settings import Settings

BOUNDS = ReadBounds(
    at_once=4,
    limit=10,  # what is not beyond the checkpoint may come before the first that is
    pages=50,
    pause=timedelta(milliseconds=200),  # its readers share five calls a second
    lasts=timedelta(seconds=10),  # a service that answers slowly must not hold up ticks
    is_enough=lambda probe: probe.answer is not ProbeResult.UNKNOWN,
)

NOTHING_ASKED: Mapping[str, Probe] = MappingProxyType({})


class TickProbes:
    """The probes of one tick. `leases`: all leases of its scan. `asked`: the shards that it probed before its
    dispatch.
    """

    def __init__(
        self,
        ports: Ports,
        settings: Settings,
        leases: Sequence[Lease],
        unread: Mapping[str, UnreadShard],
        asked: Mapping[str, Probe] = NOTHING_ASKED,
        bounds: ReadBounds = BOUNDS,
    ) -> None:
        self._stream, self._sightings = ports.stream, ports.sightings
        self._clock, self._metrics, self._log = ports.clock, ports.metrics, ports.log
        self._side_by_side = SideBySide(ports, bounds)
        self._checkpoint_interval = settings.checkpoint_interval
        self._leases, self._unread, self._asked = leases, unread, asked

    def probe(self, chosen: ProbeSelection, stopped: Collection[str], retention: timedelta) -> None:
        """Put as a metric how long the worst shard has stood still, and remember it for the next tick. `stopped`: keys
        of paused leases.
        """
        probes = self.look_into(chosen)
        now = self._clock.now()
        standing = stand_still(probes, self._unread, now, self._checkpoint_interval)
        self._report(not_merely_paused(standing, stopped, retention))
        quiet = [probe for probe in self._asked.values() if probe.answer is ProbeResult.QUIET]
        self._remember(remembered(self._leases, [*probes, *quiet], self._unread, now))

    def look_into(self, chosen: ProbeSelection) -> Sequence[Probe]:
        """Reads a page of each shard, then another page, while there is time. Skips shards that this tick has probed
        already.
        """
        first = first_probes(chosen, self._unread)
        asked = [self._asked[key] for key in first if key in self._asked]
        probes = {key: probe for key, probe in first.items() if key not in self._asked}
        readers = {key: self._stream.reader(probe.lease.shard_id, probe.at) for key, probe in probes.items()}
        found, _ = self._side_by_side.read(probes, readers)
        return [*found.values(), *asked]

    def _remember(self, now_unread: Mapping[str, UnreadShard]) -> None:
        """Stores the findings if they differ, so an idle fleet writes nothing. A write that fails does not fail the
        tick.
        """
        if now_unread == self._unread:
            return
        try:
            self._sightings.keep_unread(now_unread)
        except CallFailed as problem:
            self._log.warning("could not store which shards do not move", problem=str(problem))

    def _report(self, standing: Sequence[StandsStill]) -> None:
        for metric in (Metric.UNREAD_AGE, Metric.OWNER_STALLED_AGE):
            self._metrics.put(metric, 0)  # an alarm needs a current value, so a tick without trouble puts a zero
        for one in standing:
            shard_id, is_trouble = one.lease.shard_id, one.age >= STANDS_STILL_AFTER
            metric = Metric.OWNER_STALLED_AGE if one.is_held else Metric.UNREAD_AGE
            self._metrics.put(metric, one.age // MILLISECOND, shard_id=shard_id, in_trouble=is_trouble)
            if not one.is_held:  # of a held lease, its owner puts this
                self._metrics.put(Metric.MILLIS_BEHIND_LATEST, one.waiting // MILLISECOND, shard_id=shard_id)
            if is_trouble:
                if is_of_several(shard_id):
                    self._metrics.put(Metric.STREAM_STALLED_AGE, one.age // MILLISECOND, shard_id=shard_id)
                self._warn(one)

    def _warn(self, one: StandsStill) -> None:
        lease, seconds = one.lease, int(one.age.total_seconds())
        if one.is_held:
            self._log.warning(
                "a shard's checkpoint does not move, although records wait and its owner heartbeats",
                shard_id=lease.shard_id,
                owner=lease.actual_owner,
                seconds=seconds,
                checkpoint=str(lease.checkpoint),
            )
        else:
            self._log.warning(
                "no worker reads a shard, although records wait",
                shard_id=lease.shard_id,
                seconds=seconds,
                checkpoint=str(lease.checkpoint),
                crashes=lease.crashes,
            )
