"""The lease manager: one tick. Look at leases, shards and sightings; decide; create, clean up, dispatch; report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as replaced
from datetime import timedelta

from msgspec.structs import asdict, replace

from sublet.decisions.manager.choose_leases import ClaimReason, FleetBalance, LeaseChoice
from sublet.decisions.manager.fleet_kind import FleetKind
from sublet.decisions.manager.joins_and_drains import AmongOthers, AnnouncementKind
from sublet.decisions.manager.lease_cleanup import LeaseDeletion
from sublet.decisions.manager.packing import WorkerItem
from sublet.decisions.manager.shard_sync import starts_at_latest
from sublet.decisions.manager.tick_plan import TickLook, TickPlan, asked_first, has_new_leases, plan_tick
from sublet.decisions.session.crash_caution import CrashCaution, caution
from sublet.decisions.session.read_position import SHORTEST_RETENTION
from sublet.engine.control_watch import ControlWatch
from sublet.engine.lease.steps import create_leases, delete_lease, is_gone
from sublet.engine.manager.busy_shards import BusyShardLog
from sublet.engine.manager.kinesis_call_pacing import PacedStream
from sublet.engine.manager.look import look, look_at_several
from sublet.engine.manager.other_kind import OtherKindLog
from sublet.engine.manager.probing import BOUNDS as PROBED
from sublet.engine.manager.probing import TickProbes
from sublet.engine.manager.quiet_probing import QuietProbing, show_quiet
from sublet.engine.manager.several_streams import StreamWatch
from sublet.engine.manager.worker_reports import announce, make_reports
from sublet.engine.manager.worst_shards import WorstShardMetrics
from sublet.errors import CallFailed
from sublet.metric_names import Metric
from sublet.ports import Dispatcher, Log, Ports
from sublet.protocol.control import Pause
from sublet.protocol.lease import Lease
from sublet.settings import Settings, duration_text

LOOKS_MAX = 5
"""The most often that one tick looks."""

TOKEN_BITS = 64


@dataclass(frozen=True, slots=True)
class TickReport:
    """What a tick did, in numbers, and what it dispatched."""

    created: int
    deleted: int
    dispatched: tuple[WorkerItem, ...]
    total_leases: int
    total_shards: int
    quiet_leases: int
    """Free leases that no worker is sent for, because nothing waits in their shards."""
    unclaimed_leases: int
    malformed_rows: int
    holes: int
    inconsistent_shards: int
    others: AmongOthers
    fleet: FleetKind
    is_reporting: bool
    """Whether we report to a KCL 3.x leader, or to a worker that may become one."""
    left: frozenset[str] = frozenset()
    """Keys of leases that we hold, but whose streams the setting `streams` no longer names."""


class LeaseManager:
    """What a tick needs. Ticks may overlap: every write is conditional, and of two that looked at once one dispatches.

    asks     True in a process, which asks for leases before it steals them (`decisions.manager.announcing`)
    watch    the process's own; it knows the last control, for ticks that cannot read it. None: each look makes one
    streams  the process's own, in an application of several streams; None: this manager makes one
    """

    def __init__(
        self,
        ports: Ports,
        dispatcher: Dispatcher,
        settings: Settings,
        *,
        asks: bool = False,
        watch: ControlWatch | None = None,
        streams: StreamWatch | None = None,
        worst: WorstShardMetrics | None = None,
        busy: BusyShardLog | None = None,
        other_kind: OtherKindLog | None = None,
    ) -> None:
        if streams is None and ports.streams is not None:
            streams = StreamWatch(ports, settings)
        self.ports, self.settings = ports, settings
        self._table, self._sightings, self._dispatcher = ports.table, ports.sightings, dispatcher
        self._clock, self._chance, self._metrics, self._log = ports.clock, ports.chance, ports.metrics, ports.log
        self._asks = asks
        self._watch = watch
        self._quiet = QuietProbing()
        self._streams, self._asking = streams, ports
        """`_asking`: the ports for questions about many shards; paced, if they belong to several streams."""
        if streams is not None:
            self._asking = replaced(ports, stream=PacedStream(ports.stream, streams.pacer.wait))
        self._worst = worst or WorstShardMetrics()
        self._busy = busy or BusyShardLog()
        self._other_kind = other_kind or OtherKindLog()

    def prompted(self) -> tuple[TickReport, ...]:
        """Answers prompts: one tick answers all that come at once, and a prompt that comes during it makes it look
        again.

        Returns nothing if another tick is under way, which will then look again. After LOOKS_MAX ticks it runs one more
        and ends, so that a constant flow of prompts does not keep it for ever. Raises what `tick` raises; the next
        prompt then starts again.
        """
        token = f"{self._chance.getrandbits(TOKEN_BITS):016x}"
        reports: list[TickReport] = []
        while len(reports) < LOOKS_MAX:
            if not self._sightings.begin_prompted(token, self._clock.now()):
                return tuple(reports)
            looks_again = False
            try:
                reports.append(self.tick())
            finally:
                looks_again = self._sightings.end_prompted(token)
            if not looks_again:
                return tuple(reports)
        return (*reports, self.tick())

    def tick(self) -> TickReport:
        """Raises CallFailed if it could not look; nothing has been written then.

        Looks again, a few times at most, when another tick has dispatched since the look: its workers would be sent
        twice.
        """
        created = deleted = 0
        for _ in range(LOOKS_MAX):
            seen, plan = self._plan()
            new, gone = self._act(plan)
            created, deleted = created + new, deleted + gone
            is_dispatched = self._dispatch(plan, seen.round)
            if is_dispatched:
                break
        make_reports(plan.reports, self.ports)
        report = TickReport(
            created=created,
            deleted=deleted,
            dispatched=plan.items if is_dispatched else (),
            total_leases=plan.total_leases,
            total_shards=plan.total_shards,
            quiet_leases=len(plan.needing_no_worker),
            unclaimed_leases=plan.unclaimed_leases,
            malformed_rows=len(seen.scan.malformed),
            holes=len(plan.sync.holes),
            inconsistent_shards=len(plan.sync.inconsistent),
            others=plan.others,
            fleet=plan.fleet.kind,
            is_reporting=bool(plan.fleet.place),
            left=frozenset(
                lease.lease_key for lease in seen.elsewhere if lease.actual_owner in self.settings.own_worker_ids
            ),
        )
        if plan.announces:
            announce(AnnouncementKind.ASKS, self.ports, self.settings, seen.announced)
        self._report(seen, plan, report)
        bounds = PROBED if self._streams is None else replaced(PROBED, lasts=self._streams.pacer.time_left())
        TickProbes(self._asking, self.settings, seen.scan.leases, seen.unread, seen.asked, bounds).probe(
            plan.probes, plan.paused, _retention(seen)
        )
        self._metrics.flush()
        return report

    def _plan(self) -> tuple[TickLook, TickPlan]:
        """Looks, and plans from that. A plan that creates leases at LATEST is dropped if others have created leases
        since the look: after a reshard in between, it would start a shard at LATEST although an ancestor has a lease.
        After LOOKS_MAX looks the last plan counts: another manager may take minutes to create the leases of a large
        stream.
        """
        for _ in range(LOOKS_MAX):
            seen = self._look()
            plan = plan_tick(seen, self._chance, self.settings, asks=self._asks)
            if not (starts_at_latest(plan.sync) and has_new_leases(seen, self._table.scan())):
                break
        return seen, plan

    def _look(self) -> TickLook:
        """Also probes the shards whose leases may need no worker."""
        watch = self._watch or ControlWatch(self.ports)
        if self._streams is None:
            seen = look(self.ports, self.settings, watch)
            asked = self._quiet.ask(asked_first(seen, self.settings), seen.unread, self.ports)
        else:
            self._streams.pacer.begin()
            seen = look_at_several(self.ports, self.settings, watch, self._streams)
            quiet = asked_first(seen, self.settings)
            asked = self._quiet.ask(quiet, seen.unread, self._asking, self._streams.pacer.time_left())
        return replace(seen, asked=asked)

    def _act(self, plan: TickPlan) -> tuple[int, int]:
        new, streams = plan.sync.create, self._streams
        created = create_leases(new, self.ports) if streams is None else streams.create(new)
        deleted = sum(map(self._delete, plan.deletions))
        self._sightings.save(plan.sightings)
        return created, deleted

    def _delete(self, deletion: LeaseDeletion) -> bool:
        """A lease that cannot be deleted now does no harm: the leases to be dispatched do not wait for it."""
        try:
            if self._streams is not None and not self._streams.is_there(deletion.lease.lease_key):
                return False
            return is_gone(deletion, self.ports) and delete_lease(deletion, self.ports)
        except CallFailed as problem:
            self._log.error("could not delete a lease", lease_key=deletion.lease.lease_key, problem=str(problem))
            return False

    def _dispatch(self, plan: TickPlan, seen_round: int) -> bool:
        """Stores the dispatches before it makes them. If the tick dies in between, later ticks wait for these workers,
        and then dispatch again.
        """
        if not plan.items:
            return True
        if not self._sightings.keep_dispatched(plan.dispatched, seen_round):
            return False
        self._dispatcher.dispatch(plan.items)
        return True

    def _report(self, seen: TickLook, plan: TickPlan, report: TickReport) -> None:
        metrics, log = self._metrics, self._log
        crashing = [lease for lease in seen.scan.leases if caution(lease) is CrashCaution.PAUSES and not lease.is_ended]
        _log_faults(seen, plan, crashing, log)
        log_tick(log, plan.standing, plan.choices)
        metrics.put(Metric.CRASHING_LEASES, len(crashing))
        metrics.put(Metric.TOTAL_LEASES, report.total_leases)
        metrics.put(Metric.TOTAL_SHARDS, report.total_shards)
        metrics.put(Metric.UNCLAIMED_LEASES, report.unclaimed_leases)
        metrics.put(Metric.MALFORMED_ROWS, report.malformed_rows)
        self._worst.show(seen.scan.leases, self.ports)
        self._busy.say(seen.scan.leases, self.settings, self.ports)
        self._other_kind.say(seen.scan, plan.waits_for, self.ports)
        in_play = {lease.lease_key for lease in seen.scan.leases if not lease.is_ended}
        others = in_play.difference(plan.needing_no_worker, plan.paused)
        show_quiet(plan.needing_no_worker, len(plan.paused), metrics, others)
        _show_paused(plan.paused, self.ports)


def _log_faults(seen: TickLook, plan: TickPlan, crashing: Sequence[Lease], log: Log) -> None:
    for row in seen.scan.malformed:
        log.error(
            "malformed lease row; its shard waits until the row is repaired",
            lease_key=row.lease_key,
            problem=row.problem,
        )
    for lease in crashing:
        log.error(
            "every process that handles this shard's next records dies: the lease is retried alone, with backoff",
            lease_key=lease.lease_key,
            checkpoint=str(lease.checkpoint),
            crashes=lease.crashes,
        )
    for shard_id in plan.sync.inconsistent:
        log.warning(
            "ListShards shows a shard and its parent open; the shard is skipped in this tick", shard_id=shard_id
        )
    for hole in plan.sync.holes:
        log.warning("hash key range without a lease", starting=str(hole.starting), ending=str(hole.ending))


def _show_paused(stopped: Mapping[str, Pause], ports: Ports) -> None:
    """Puts the metric only while leases are paused: an application that is never paused has no such metric."""
    if stopped:
        last = max(stopped.values(), key=lambda pause: pause.since)
        ports.metrics.put(Metric.PAUSED_LEASES, len(stopped))
        ports.log.info(
            "leases are paused by an operator",
            leases=len(stopped),
            order=last.order,
            by=last.by,
            until=str(last.until),
        )


def _retention(seen: TickLook) -> timedelta:
    """The stream's retention, or the shortest possible one if it is not known."""
    last = seen.placement.last
    return SHORTEST_RETENTION if last is None else last.retention


def log_start(log: Log, settings: Settings, tick_interval: timedelta | None = None) -> None:
    """Logs the intervals and limits. On Lambda a schedule starts the ticks, so their interval is not known here."""
    ticks = {} if tick_interval is None else {"tick_interval": duration_text(tick_interval)}
    log.info(
        "lease manager starts",
        mode=settings.mode.value,
        worker_ids=settings.own_worker_ids,
        **ticks,
        failover_time=duration_text(settings.failover_time),
        heartbeat_interval=duration_text(settings.heartbeat_interval),
        fair_share=settings.fair_share,
        balance=settings.balance.value,
        max_leases_for_worker=settings.max_leases_for_worker,
        leases_to_acquire=settings.leases_to_acquire,
        max_leases_to_steal_at_one_time=settings.max_leases_to_steal_at_one_time if settings.steals else 0,
    )


def log_tick(log: Log, standing: FleetBalance, choices: Sequence[LeaseChoice]) -> None:
    """Logs nothing if the tick takes no lease. Otherwise: the state of the fleet and the target, then each lease and
    why.
    """
    if not choices:
        return
    stolen = sum(choice.why is ClaimReason.STEAL for choice in choices)
    log.info("leases chosen", **asdict(standing), chosen=len(choices), stolen=stolen)
    for choice in choices:
        log.info("lease chosen", lease_key=choice.lease.lease_key, worker_id=choice.worker_id, why=choice.why)
