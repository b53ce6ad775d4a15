"""Probes free shards before the dispatch, so that no worker is sent where nothing waits.

A process that ticks again and again keeps each shard's reader. So a quiet shard costs one GetRecords per tick: without
the reader it would also cost a GetShardIterator. Iterators are kept in memory only. In the sightings table a thousand
of them would be 250 write units per tick, which is more than the calls that they save.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from sublet.decisions.manager.probe import Probe
from sublet.decisions.manager.quiet_shards import ASKED_AT_MOST_EVERY, LastProbe, first_look
from sublet.decisions.manager.unread_shards import UnreadShard
from sublet.engine.manager.side_by_side import ReadBounds, SideBySide
from sublet.metric_names import Metric
from sublet.ports import Metrics, Ports, ShardReader
from sublet.protocol.lease import Lease
from sublet.protocol.stream_key import stream_key_of

BOUNDS = ReadBounds(
    at_once=16,  # Kinesis answers in some ten milliseconds, so that this keeps one CPU busy
    limit=2,  # the checkpointed record, and one that waits
    pages=3,  # of a shard that is walked; a worker walks the rest
    pause=ASKED_AT_MOST_EVERY,
    lasts=timedelta(seconds=10),  # some ten thousand shards on a whole CPU
    is_enough=lambda probe: probe.needs_no_worker or probe.is_ended or probe.waiting is not None,
)

NO_TIME = timedelta(0)


@dataclass(frozen=True, slots=True)
class _KeptAnswers:
    last: LastProbe
    reader: ShardReader | None


@dataclass(slots=True)
class QuietProbing:
    """What one process knows of quiet shards from tick to tick. Not thread-safe: its ticks do not overlap."""

    _kept: dict[str, _KeptAnswers] = field(default_factory=dict)

    def ask(
        self,
        leases: Iterable[Lease],
        unread: Mapping[str, UnreadShard],
        ports: Ports,
        lasts: timedelta = BOUNDS.lasts,
    ) -> Mapping[str, Probe]:
        """The probes by lease key, as far as each has come. An earlier tick's answer says nothing about records that
        came later, so a shard that was probed less than a second ago is probed again when the second is over.
        """
        leases = tuple(leases)
        self._let_rest(leases, ports)
        now = ports.clock.now()
        probes: dict[str, Probe] = {}
        readers: dict[str, ShardReader] = {}
        for lease in leases:
            kept, from_row = self._kept.get(lease.lease_key), first_look(lease, unread)
            if kept is not None and kept.reader is not None and kept.last.can_continue(lease, from_row, now):
                probes[lease.lease_key] = kept.last.probe.again(lease)
                readers[lease.lease_key] = kept.reader
            elif from_row is not None:
                probes[lease.lease_key] = from_row
                readers[lease.lease_key] = ports.stream.reader(lease.shard_id, from_row.at)
        found, failed = SideBySide(ports, replace(BOUNDS, lasts=min(lasts, BOUNDS.lasts))).read(probes, readers)
        self._keep(found, failed, readers, ports.clock.now())
        return {key: kept.last.probe for key, kept in self._kept.items()}

    def _let_rest(self, leases: Iterable[Lease], ports: Ports) -> None:
        asked = [kept.last.at for lease in leases if (kept := self._kept.get(lease.lease_key)) is not None]
        rest = max(asked) + ASKED_AT_MOST_EVERY - ports.clock.now() if asked else NO_TIME
        if rest > NO_TIME:
            ports.tasks.signal().wait(min(rest, ASKED_AT_MOST_EVERY))

    def _keep(
        self,
        found: Mapping[str, Probe],
        failed: frozenset[str],
        readers: Mapping[str, ShardReader],
        now: datetime,
    ) -> None:
        """A reader that failed is opened again next time: its iterator may be the cause."""
        self._kept = {
            key: _KeptAnswers(LastProbe(probe, now), None if key in failed else readers[key])
            for key, probe in found.items()
        }


def show_quiet(lease_keys: Collection[str], paused: int, metrics: Metrics, others: Collection[str] = ()) -> None:
    """Puts, for the application, the metrics that a worker puts if it finds nothing. The alarms on the least lagging
    shard, and on a shard that is far busier than the average, need them to compare all shards. No metric is put for a
    single quiet shard, since each would be billed. `paused`: how many leases need no worker because they are paused;
    their lag is not known. `others`: the leases in play that are neither quiet nor paused. With several streams, a
    stream with both quiet and other shards gets a lag of zero too, for its first quiet shard: its least lagging shard
    is not behind. A wholly quiet stream is not billed.
    """
    metrics.put(Metric.QUIET_LEASES, len(lease_keys) + paused)
    for _ in lease_keys:
        metrics.put(Metric.MILLIS_BEHIND_LATEST, 0)
        metrics.put(Metric.BYTES, 0)
    read = {stream_key_of(lease_key) for lease_key in others}
    for stream, quiet in {stream_key_of(each): each for each in sorted(lease_keys, reverse=True)}.items():
        if stream is not None and stream in read:
            metrics.put(Metric.MILLIS_BEHIND_LATEST, 0, shard_id=quiet)
