"""One tick's plan: all decisions of a lease manager, from one snapshot of leases, shards and sightings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import chain
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from sublet.decisions.manager.choose_leases import FleetBalance, LeaseChoice, choose_leases
from sublet.decisions.manager.dispatching import NOTHING, DispatchedWorker, after_choices, under_way
from sublet.decisions.manager.fleet_kind import Fleet, ReportPlan, fleet_of, plan_reports
from sublet.decisions.manager.hash_range_audit import holes
from sublet.decisions.manager.joins_and_drains import (
    NOTHING_ANNOUNCED,
    AmongOthers,
    Announcement,
    among_others,
    ask_first,
    joining,
)
from sublet.decisions.manager.lease_cleanup import DeleteReason, LeaseDeletion, plan_lease_cleanup
from sublet.decisions.manager.liveness import Sighting, is_expired, observe
from sublet.decisions.manager.packing import WorkerItem, pack
from sublet.decisions.manager.probe import Probe
from sublet.decisions.manager.quiet_shards import choose_asked, needing_no_worker
from sublet.decisions.manager.shard_sync import ShardSyncPlan, plan_shard_sync, together
from sublet.decisions.manager.unread_shards import NONE_UNREAD, ProbeSelection, UnreadShard, choose_probes
from sublet.decisions.session.control import held, paused
from sublet.decisions.streams.by_stream import ListedStream, parts_of
from sublet.decisions.streams.chosen_streams import NONE_KNOWN, KnownStream
from sublet.decisions.time_and_chance import Chance
from sublet.errors import SettingsError
from sublet.protocol.control import NO_CONTROL, Control, Pause
from sublet.protocol.lease import Lease, LeaseScan, shard_id_of
from sublet.protocol.shard import HashKeyRange, Shard
from sublet.protocol.stream_info import Placement
from sublet.protocol.stream_key import StreamKey, stream_key_of
from sublet.protocol.worker_report import WorkerReport
from sublet.settings import Settings

NONE_ASKED: Mapping[str, Probe] = MappingProxyType({})


class TickLook(Struct, frozen=True):
    """What one tick read. The leases were scanned before the shards were listed: otherwise a new shard's lease looks
    orphaned.

    `shards` is the full listing, or for an empty table the shards open at the start position (KCL). `at`: the time of
    the scan, by the lease table's clock if it sends one, since managers read each other's sightings and their clocks
    may differ.
    """

    scan: LeaseScan
    shards: Sequence[Shard]
    sightings: Mapping[str, Sighting]
    at: datetime
    dispatched: Mapping[str, DispatchedWorker] = NOTHING
    unread: Mapping[str, UnreadShard] = NONE_UNREAD
    round: int = 0
    """The round of the last dispatch: see `SightingStore.keep_dispatched`."""
    announced: Mapping[str, Announcement] = NOTHING_ANNOUNCED
    reports: tuple[WorkerReport, ...] = ()
    """The reports by which workers of a KCL 3.x fleet show that they are alive, in whichever table."""
    client_version: str | None = None
    """The KCL version that these workers work by; None if not known."""
    placement: Placement = Placement()
    """The stream's description, and earlier ones by other processes of the application."""
    control: Control = NO_CONTROL
    """What an operator has ordered."""
    asked: Mapping[str, Probe] = NONE_ASKED
    """What the shards of `asked_first` have answered, by lease key."""
    streams: tuple[ListedStream, ...] | None = None
    """The streams, in an application of several. `shards` has the shards of all of them, and `scan` only their
    leases.
    """
    elsewhere: tuple[Lease, ...] = ()
    """Leases of other streams, which this application's other programs may read: their sightings are kept."""
    known_streams: Mapping[StreamKey, KnownStream] = NONE_KNOWN
    """What the application's processes remembered of its several streams before this look."""


class TickPlan(Struct, frozen=True):
    """What to write, in this order: creations, deletions, sightings, dispatches; then dispatch."""

    sync: ShardSyncPlan
    deletions: tuple[LeaseDeletion, ...]
    sightings: Mapping[str, Sighting]
    dispatched: Mapping[str, DispatchedWorker]
    """The dispatches of this and earlier ticks, while the worker may still be on its way."""
    choices: tuple[LeaseChoice, ...]
    items: tuple[WorkerItem, ...]
    standing: FleetBalance
    fleet: Fleet
    reports: ReportPlan
    """The reports of our own worker ids."""
    probes: ProbeSelection
    """Leases about whose shards to ask Kinesis after everything else, because no worker reports on them."""
    needing_no_worker: frozenset[str]
    """Keys of leases without an owner that no worker is sent for, because nothing waits in their shards."""
    unclaimed_leases: int
    """Unfinished leases without a live owner that no worker is sent for, though one may be needed: leases between two
    ticks of a catch-up do not count.
    """
    total_shards: int
    """Shards with records to come: open, or closed with an unfinished lease."""
    total_leases: int
    """How many of those are covered: by a lease of their own, or of an ancestor that comes first."""
    announces: bool
    """Whether to announce that leases of others are wanted, before any is stolen."""
    others: AmongOthers
    """What this tick shows about the others, for a process, which schedules its own scans and keeps its leases."""
    paused: Mapping[str, Pause]
    """The leases for which no worker is sent because an operator has paused them, by lease key."""
    waits_for: tuple[Lease, ...] = ()
    """Leases of the other kind that workers of ours still hold. Until these release them, or die, nothing is taken:
    both would read the same stream.
    """


def asked_first(look: TickLook, settings: Settings) -> tuple[Lease, ...]:
    """The leases whose shards to probe before the plan is made."""
    sent = under_way(look.dispatched, look.scan.leases, look.at)
    stopped = paused(look.control, look.scan.leases, look.at)
    unreadable = frozenset(shard_id_of(row.lease_key) for row in look.scan.malformed)
    return choose_asked(look.scan.leases, sent.keys() | stopped.keys(), unreadable, look.at, settings)


def has_new_leases(look: TickLook, scan: LeaseScan) -> bool:
    """Whether a later scan has leases that the look has not."""
    return not _keys(scan) <= _keys(look.scan) | {lease.lease_key for lease in look.elsewhere}


def _keys(scan: LeaseScan) -> set[str]:
    return {lease.lease_key for lease in scan.leases} | {row.lease_key for row in scan.malformed}


def plan_tick(look: TickLook, chance: Chance, settings: Settings, *, asks: bool = False) -> TickPlan:
    """`asks`: request leases before stealing them, once every process has read the announcement.

    Leases that this tick creates are chosen by this tick: if another manager creates them first, they are the same.

    Raises SettingsError for a lease that would start in the future, since Kinesis cannot open a shard there. Each tick
    raises until that time has come, and the next one creates the lease; waiting silently would look like a stall.
    """
    now, table = look.at, _planned_table(look, settings)
    leases = table.leases
    _check_start(table.sync, now, settings)
    theirs = _of_the_same_stream(look.scan.other_kind, settings)
    sightings = observe(look.sightings, (*look.scan.leases, *look.elsewhere, *theirs), now)
    waits_for = held(theirs, sightings, now, settings.failover_time)
    if held(leases, sightings, now, settings.failover_time):
        waits_for = ()  # workers of this kind are at work already: to wait now would only stop some of their shards
    standing = under_way(look.dispatched, leases, now)
    sent = {lease_key: dispatched.worker_id for lease_key, dispatched in standing.items()}
    fleet = fleet_of(look.reports, look.client_version, settings.own_worker_ids, now, settings)
    stopped = paused(look.control, leases, now)
    quiet = needing_no_worker(look.asked) - stopped.keys()
    chosen = choose_leases(
        leases,
        sightings,
        now,
        chance,
        settings,
        settings.own_worker_ids,
        recently_ended=frozenset(lease.shard_id for lease in leases if lease.is_ended),
        malformed=table.waited_for,
        under_way=sent,
        fleet=replace(fleet, joining=joining(look.announced, now).difference(settings.own_worker_ids)),
        paused=stopped,
        left_alone=quiet,
    )
    choices, announces = chosen.choices, False
    if asks:
        choices, announces = ask_first(chosen.choices, look.announced, now, settings)
    if waits_for or (_has_just_joined(look, settings) and not look.scan.leases):
        choices = ()
    claimed = sent.keys() | quiet | stopped.keys() | {choice.lease.lease_key for choice in choices}
    total_shards, total_leases = _totals(leases, look, settings)
    return TickPlan(
        sync=table.sync,
        deletions=table.deletions,
        sightings=sightings,
        dispatched=after_choices(look.dispatched, choices, now),
        choices=choices,
        items=pack(
            choices,
            settings,
            chance,
            now,
            may_grow=_may_grow(leases, settings),
            auto_seen_at=look.placement.auto_seen_at,
        ),
        standing=chosen.standing,
        fleet=fleet,
        reports=plan_reports(fleet, look.reports, now, settings),
        probes=choose_probes(look.scan.leases, sightings, look.unread, now, chance, settings, table.waited_for, quiet),
        needing_no_worker=quiet,
        unclaimed_leases=sum(
            lease.lease_key not in claimed and _is_unclaimed(lease, sightings, now, settings) for lease in leases
        ),
        total_shards=total_shards,
        total_leases=total_leases,
        announces=announces,
        others=among_others(leases, sightings, look.dispatched, look.announced, now, settings),
        paused=stopped,
        waits_for=waits_for,
    )


def _of_the_same_stream(others: Sequence[Lease], settings: Settings) -> tuple[Lease, ...]:
    """The leases of the other kind that our own workers have taken: those of a deployment with `stream` where this one
    has `streams`, or the reverse. What a multi-stream KCL does in this table is its own matter, and so are other
    streams.
    """
    return tuple(
        lease
        for lease in others
        if lease.held_by is not None
        and (
            settings.streams is not None
            or (key := stream_key_of(lease.lease_key)) is None
            or key.stream == settings.stream
        )
    )


class _PlannedTable(Struct, frozen=True):
    """The lease table as this tick leaves it.

    leases      those that stay, and the new ones
    waited_for  shards whose children wait: their rows are unreadable, or their leases look orphaned. Such a shard may
                still exist, until the tick has asked for it
    """

    sync: ShardSyncPlan
    deletions: tuple[LeaseDeletion, ...]
    leases: list[Lease]
    waited_for: frozenset[str]


def _planned_table(look: TickLook, settings: Settings) -> _PlannedTable:
    parts = parts_of(look.scan, look.shards, look.streams, settings.start_position)
    listed = [part for part in parts if part.is_listed_now]
    sync = together([plan_shard_sync(part.leases, part.malformed, part.shards, part.start) for part in listed])
    cleanups = [plan_lease_cleanup(part.leases, part.shards, part.malformed) for part in listed if part.leases]
    deletions = tuple(chain.from_iterable(cleanups))
    deleted = {deletion.lease.lease_key for deletion in deletions}
    stay = [lease for lease in look.scan.leases if lease.lease_key not in deleted]
    orphans = {
        deletion.lease.shard_id
        for deletion in deletions
        if deletion.why is DeleteReason.GARBAGE and not deletion.lease.is_ended
    }
    unreadable = frozenset(shard_id_of(row.lease_key) for row in look.scan.malformed)
    return _PlannedTable(sync, deletions, stay + [new.lease for new in sync.create], unreadable | orphans)


def _may_grow(leases: Sequence[Lease], settings: Settings) -> bool:
    """Whether workers may also take children: there is room for them even if every shard is split."""
    return 2 * sum(not lease.is_ended for lease in leases) <= settings.max_leases_for_worker


def _totals(leases: Sequence[Lease], look: TickLook, settings: Settings) -> tuple[int, int]:
    """The shards in play, and how many of them are covered by a lease, over all streams."""
    total_shards = total_leases = 0
    now = replace(look.scan, leases=tuple(leases))
    for part in parts_of(now, look.shards, look.streams, settings.start_position):
        unfinished = {lease.shard_id for lease in part.leases if not lease.is_ended}
        in_play = [shard for shard in part.shards if shard.is_open or shard.shard_id in unfinished]
        uncared = holes((lease for lease in part.leases if not lease.is_ended), part.shards)
        total_shards += len(in_play)
        total_leases += sum(not any(_overlap(shard.hash_key_range, hole) for hole in uncared) for shard in in_play)
    return total_shards, total_leases


def _has_just_joined(look: TickLook, settings: Settings) -> bool:
    """Whether this process has just announced that it joins. Then it scans again in a second, so that processes that
    start together share an application's first leases.
    """
    return any(worker_id in look.announced for worker_id in settings.own_worker_ids)


def _check_start(sync: ShardSyncPlan, now: datetime, settings: Settings) -> None:
    if any(new.lease.start_at is not None and new.lease.start_at > now for new in sync.create):
        raise SettingsError(
            "start_position",
            str(settings.start_position),
            f"a time in the past (it is {now.isoformat(timespec='seconds')}); for records from now on, LATEST",
        )


def _overlap(left: HashKeyRange, right: HashKeyRange) -> bool:
    return left.starting <= right.ending and right.starting <= left.ending


def _is_unclaimed(lease: Lease, sightings: Mapping[str, Sighting], now: datetime, settings: Settings) -> bool:
    if lease.is_ended:
        return False
    return lease.actual_owner is None or is_expired(lease, sightings, now, settings.failover_time)
