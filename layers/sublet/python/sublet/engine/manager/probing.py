"""Probes shards whose rows do not show whether records wait there: a tick's last step, and nothing else waits for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from sublet.decisions.handled_position import HandledPosition, position_of
from sublet.decisions.quiet import MILLISECOND
from sublet.decisions.read_position import read_position
from sublet.decisions.unread_shards import (
    Probe,
    ProbeResult,
    Probes,
    StandsStill,
    UnreadShard,
    first_probes,
    remembered,
    stand_still,
)
from sublet.engine.session.metrics import STANDS_STILL_AFTER
from sublet.errors import LeaseTableError, ShardNotFound, StreamError, TransientError
from sublet.metric_names import Metric
from sublet.ports import PollRefusal, Ports, ShardReader
from sublet.protocol.lease import Lease
from sublet.settings import Settings

PROBING_LASTS = timedelta(seconds=10)
"""At most, plus one shard's two calls: a service that answers slowly must not hold up ticks."""

POLL_INTERVAL = timedelta(milliseconds=200)
"""Between two pages of a shard: five a second are what its readers share."""

PROBE_LIMIT = 10
"""Records of a page: what is not beyond the checkpoint may come before the first that is."""


@dataclass(slots=True)
class Probing:
    """One tick's. `leases`: all of its scan."""

    ports: Ports
    settings: Settings
    leases: Sequence[Lease]
    unread: Mapping[str, UnreadShard]
    pause: timedelta = POLL_INTERVAL
    """Between two pages of a shard."""
    is_refused: bool = field(default=False, init=False)
    """Kinesis would not answer the next one either."""

    def probe(self, chosen: Probes) -> None:
        """Put how long the worst has stood still; remember it for the next tick."""
        probes = self.look_into(chosen)
        now = self.ports.clock.now()
        _report(stand_still(probes, self.unread, now, self.settings.checkpoint_interval), self.ports)
        self._remember(remembered(self.leases, probes, self.unread, now))

    def look_into(self, chosen: Probes) -> Sequence[Probe]:
        """Page by page of all of them, as long as there is time: an empty page that lags is no answer."""
        ends = self.ports.clock.steady() + PROBING_LASTS
        probes, stream = dict(first_probes(chosen, self.unread)), self.ports.stream
        readers = {key: stream.reader(probe.lease.shard_id, probe.at) for key, probe in probes.items()}
        while readers:
            for key, reader in list(readers.items()):
                if self.is_refused or self.ports.clock.steady() >= ends:
                    return list(probes.values())
                probe = self._next_page(probes[key], reader)
                probes[key] = probe or probes[key]
                if probe is None or probe.answer is not ProbeResult.UNKNOWN:
                    del readers[key]
            if readers:
                self.ports.tasks.signal().wait(self.pause)
        return list(probes.values())

    def _next_page(self, probe: Probe, reader: ShardReader) -> Probe | None:
        """None: no further page. The shard's read limit is used up by its readers, or it cannot be read."""
        try:
            page = reader.read(PROBE_LIMIT)
        except StreamError as refused:
            self.is_refused = not isinstance(refused, TransientError | ShardNotFound)
            _report_refusal(probe.lease, refused, self.ports)
            return None
        return None if isinstance(page, PollRefusal) else probe.after(page, self.ports.clock.now())

    def _remember(self, now_unread: Mapping[str, UnreadShard]) -> None:
        """An idle fleet writes nothing. That it could not be written is no reason for a tick to have failed."""
        if now_unread == self.unread:
            return
        try:
            self.ports.sightings.keep_unread(now_unread)
        except LeaseTableError as problem:
            self.ports.log.warning("could not remember which shards stand still", problem=str(problem))


def _report_refusal(lease: Lease, refused: StreamError, ports: Ports) -> None:
    """A shard that is gone is the cleanup's to find; what passes by itself is the next tick's."""
    if isinstance(refused, TransientError | ShardNotFound):
        return
    ports.metrics.put(Metric.READS_REFUSED, 1, shard_id=lease.shard_id)
    ports.log.error(
        "could not look into a shard",
        shard_id=lease.shard_id,
        error=type(refused).__name__,
        problem=str(refused),
    )


def _report(standing: Sequence[StandsStill], ports: Ports) -> None:
    for metric in (Metric.UNREAD_AGE, Metric.OWNER_STALLED_AGE):
        ports.metrics.put(metric, 0)  # an alarm goes by what is there: a tick without trouble says so
    for one in standing:
        shard_id, is_trouble = one.lease.shard_id, one.age >= STANDS_STILL_AFTER
        metric = Metric.OWNER_STALLED_AGE if one.is_held else Metric.UNREAD_AGE
        ports.metrics.put(metric, one.age // MILLISECOND, shard_id=shard_id if is_trouble else None)
        if not one.is_held:  # its owner tells of it
            ports.metrics.put(Metric.MILLIS_BEHIND_LATEST, one.waiting // MILLISECOND, shard_id=shard_id)
        if is_trouble:
            _warn(one, ports)


def _warn(one: StandsStill, ports: Ports) -> None:
    lease, seconds = one.lease, int(one.age.total_seconds())
    if one.is_held:
        ports.log.warning(
            "a shard has records, its owner heartbeats, and its checkpoint stands still",
            shard_id=lease.shard_id, owner=lease.actual_owner, seconds=seconds, checkpoint=str(lease.checkpoint),
        )  # fmt: skip
    else:
        ports.log.warning(
            "a shard has records, and nobody reads it",
            shard_id=lease.shard_id, seconds=seconds, checkpoint=str(lease.checkpoint), crashes=lease.crashes,
        )  # fmt: skip


AT_ONCE = 10


def positions(leases: Iterable[Lease], ports: Ports) -> Mapping[str, HandledPosition]:
    """Positions by lease key, for leases that have not ended and whose shard answers: one whose read limit is used up does not.

    Two calls a shard, one of them of its five polls a second. Raises what Stream raises, but for what passes by itself.
    """
    slots = ports.tasks.slots(AT_ONCE)

    def ask(lease: Lease) -> HandledPosition | None:
        with slots:
            return _ask(lease, ports)

    asked = [(lease, ports.tasks.spawn(partial(ask, lease))) for lease in leases]
    return {lease.lease_key: found for lease, task in asked if (found := task.result()) is not None}


def _ask(lease: Lease, ports: Ports) -> HandledPosition | None:
    at = read_position(lease)
    if at is None:
        return None
    try:
        page = ports.stream.reader(lease.shard_id, at).read(1)
    except (TransientError, ShardNotFound):
        return None
    return None if isinstance(page, PollRefusal) else position_of(lease, page, ports.clock.now())
