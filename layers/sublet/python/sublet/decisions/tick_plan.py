"""One tick's plan: everything a lease manager decides from one look at the leases, the shards and the sightings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from sublet.decisions.announcing import (
    NOTHING_ANNOUNCED,
    AmongOthers,
    Announcement,
    Asking,
    among_others,
    ask_first,
    joining,
)
from sublet.decisions.chance import Chance
from sublet.decisions.choose_leases import Choice, Standing, choose_leases
from sublet.decisions.dispatching import NOTHING, Dispatched, after_choices, under_way
from sublet.decisions.fleet_kind import Fleet, ReportPlan, fleet_of, plan_reports
from sublet.decisions.hash_range_audit import holes
from sublet.decisions.lease_cleanup import DeleteReason, Deletion, plan_lease_cleanup
from sublet.decisions.liveness import Sighting, is_expired, observe
from sublet.decisions.packing import WorkerItem, pack
from sublet.decisions.shard_sync import ShardSyncPlan, plan_shard_sync
from sublet.decisions.unread_shards import NONE_UNREAD, Chosen, Unread, choose_probes
from sublet.errors import SettingsError
from sublet.protocol.lease import Lease, LeaseScan, shard_id_of
from sublet.protocol.shard import HashKeyRange, Shard
from sublet.protocol.stream_info import Placement
from sublet.protocol.worker_report import WorkerReport
from sublet.settings import Settings


class Look(Struct, frozen=True):
    """What one tick saw. The leases were scanned before the shards were listed: the other way round a new shard looks orphaned.

    `shards` is the full listing, unless the table is empty: then it holds those open at the start position (KCL). `at`: when
    that was, by the lease table's clock where it tells its: what one manager remembers another one reads, and theirs may differ.
    """

    scan: LeaseScan
    shards: Sequence[Shard]
    sightings: Mapping[str, Sighting]
    at: datetime
    dispatched: Mapping[str, Dispatched] = NOTHING
    unread: Mapping[str, Unread] = NONE_UNREAD
    round: int = 0
    """Of the dispatches: see `SightingStore.keep_dispatched`."""
    announced: Mapping[str, Announcement] = NOTHING_ANNOUNCED
    reports: tuple[WorkerReport, ...] = ()
    """By which workers of a KCL 3.x tell that they live, wherever they stand."""
    client_version: str | None = None
    """By whose rules these workers work; None: it is not known."""
    placement: Placement = Placement()
    """How the stream is described, and was by others of the application."""


class TickPlan(Struct, frozen=True):
    """What to write, in this order: creations, deletions, sightings, what is dispatched; then dispatch."""

    sync: ShardSyncPlan
    deletions: tuple[Deletion, ...]
    sightings: Mapping[str, Sighting]
    dispatched: Mapping[str, Dispatched]
    """Of this tick and of those before it, as far as a worker may still be on its way."""
    choices: tuple[Choice, ...]
    items: tuple[WorkerItem, ...]
    standing: Standing
    fleet: Fleet
    reports: ReportPlan
    """Of our own worker ids."""
    probes: Chosen
    """Whose shards are to be asked about, when all else is done: nobody else tells of them."""
    unclaimed_leases: int
    """Leases not ended that nobody alive holds and that nobody is sent for: a catch-up between two ticks is no trouble."""
    total_shards: int
    """Shards with records to come: open, or closed with a lease that has not ended."""
    total_leases: int
    """How many of those are cared for: by a lease of their own, or of an ancestor that comes first."""
    announces: bool
    """It is to be said that others' leases are wanted, before any is stolen."""
    others: AmongOthers
    """For a process, which looks by itself, and holds on to what it has."""


def plan_tick(look: Look, chance: Chance, settings: Settings, *, asks: bool = False) -> TickPlan:
    """`asks`: what is to be stolen is asked for, once everybody has heard of it.

    Leases created by this tick are chosen by this tick: another manager that creates them first creates the same.

    Raises SettingsError for a lease that would start at a moment that has not come: Kinesis opens such a one nowhere. Every
    tick says so until the moment has come, and the next one creates it; to wait without a word would look like a stall.
    """
    now = look.at
    malformed = frozenset(shard_id_of(row.lease_key) for row in look.scan.malformed)
    sync = plan_shard_sync(look.scan.leases, malformed, look.shards, settings.start_position)
    _check_start(sync, now, settings)
    deletions = plan_lease_cleanup(look.scan.leases, look.shards, malformed) if look.scan.leases else ()
    doomed = {deletion.lease.lease_key for deletion in deletions}
    suspected = {
        d.lease.shard_id for d in deletions if d.why is DeleteReason.GARBAGE and not d.lease.is_ended
    }
    leases = [lease for lease in look.scan.leases if lease.lease_key not in doomed] + [
        new.lease for new in sync.create
    ]
    sightings = observe(look.sightings, look.scan.leases, now)
    ended = frozenset(lease.shard_id for lease in leases if lease.is_ended)
    # A suspect may yet prove to exist: until the tick has asked, its children wait for it as for an unreadable row.
    waits = malformed | suspected
    standing = under_way(look.dispatched, leases, now)
    sent = {lease_key: dispatched.worker_id for lease_key, dispatched in standing.items()}
    fleet = fleet_of(look.reports, look.client_version, settings.own_worker_ids, now, settings)
    among = replace(fleet, joining=joining(look.announced, now).difference(settings.own_worker_ids))
    chosen = choose_leases(
        leases, sightings, now, chance, settings, settings.own_worker_ids, ended, waits, sent, among
    )
    choices, announces = (
        ask_first(chosen.choices, look.announced, now, settings)
        if asks
        else Asking(chosen.choices, announces=False)
    )
    if _has_just_joined(look, settings) and not look.scan.leases:
        choices = ()
    unended = sum(not lease.is_ended for lease in leases)
    may_grow = 2 * unended <= settings.max_leases_for_worker  # even if every shard is split
    dispatched = after_choices(look.dispatched, choices, now)
    claimed = sent.keys() | {choice.lease.lease_key for choice in choices}
    unfinished = {lease.shard_id for lease in leases if not lease.is_ended}
    in_play = [shard for shard in look.shards if shard.is_open or shard.shard_id in unfinished]
    uncared = holes((lease for lease in leases if not lease.is_ended), look.shards)
    return TickPlan(
        sync, deletions, sightings, dispatched, choices,
        pack(choices, settings, chance, now, may_grow=may_grow, auto_seen_at=look.placement.auto_seen_at),
        standing=chosen.standing,
        fleet=fleet,
        reports=plan_reports(fleet, look.reports, now, settings),
        probes=choose_probes(look.scan.leases, sightings, look.unread, now, chance, settings, waits),
        unclaimed_leases=sum(
            _is_unclaimed(lease, sightings, now, settings) for lease in leases if lease.lease_key not in claimed
        ),
        total_shards=len(in_play),
        total_leases=sum(not any(_overlap(shard.hash_key_range, hole) for hole in uncared) for shard in in_play),
        announces=announces,
        others=among_others(leases, sightings, look.dispatched, look.announced, now, settings),
    )  # fmt: skip


def _has_just_joined(look: Look, settings: Settings) -> bool:
    """And said so, so that it looks again in a second: those who start together share out an application's first leases."""
    return any(worker_id in look.announced for worker_id in settings.own_worker_ids)


def _check_start(sync: ShardSyncPlan, now: datetime, settings: Settings) -> None:
    if any(new.lease.start_at is not None and new.lease.start_at > now for new in sync.create):
        raise SettingsError(
            "start_position",
            str(settings.start_position),
            f"a moment that has come (it is {now.isoformat(timespec='seconds')}); for what is put from now on, LATEST",
        )


def _overlap(left: HashKeyRange, right: HashKeyRange) -> bool:
    return left.starting <= right.ending and right.starting <= left.ending


def _is_unclaimed(lease: Lease, sightings: Mapping[str, Sighting], now: datetime, settings: Settings) -> bool:
    if lease.is_ended:
        return False
    return lease.actual_owner is None or is_expired(lease, sightings, now, settings.failover_time)
