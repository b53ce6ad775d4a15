"""Which leases to create: KCL's rule (HierarchicalShardSyncer), and a repair of gaps that its workers may leave.

KCL's rule in short: an empty table gets the shards that were open at the start position. After that the table itself
shows what has been handled: a shard needs a lease only if neither it nor an ancestor has one. A worker that ends a
shard creates the children's leases itself.

kcl-rust's rule is a lease for every shard without leased relatives. It re-reads the retention period beside a Java
fleet that has cleaned up, and loses records after a split. Where they differ, we follow KCL.

The repair: KCL never creates the children of parents that ended without them, so a worker that failed to do so leaves a
hole for ever. We create them. So we do with a merge's parent whose row was deleted while the child waits for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import StrEnum

from msgspec import Struct

from sublet.decisions.manager.hash_range_audit import gaps, holes
from sublet.protocol.checkpoint import AT_TIMESTAMP, LATEST, TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import Lease, lease_key_of
from sublet.protocol.shard import HashKeyRange, Shard, creation_order
from sublet.settings import StartKind, StartPosition


class CreateReason(StrEnum):
    START = "start"
    """No lease leads to this shard: it is read from the start position."""
    ANCESTOR = "ancestor"
    """A lease will lead from it to a later shard, and its records come before that shard's."""
    REPAIR = "repair"
    """Its parents have ended without creating it, or they are past retention and only a lease is left of them, or its
    own row was deleted while its child waited for it. It is read from its beginning.
    """


class NewLease(Struct, frozen=True):
    """A lease to create unless it exists."""

    lease: Lease
    why: CreateReason


class ShardSyncPlan(Struct, frozen=True):
    """What a shard sync should do, and what looks odd.

    create        in KCL's order: if only the first few get created, the next sync creates the rest
    inconsistent  children of a parent that is still open, from a listing during a reshard; none gets a lease this time
    holes         hash keys that no unfinished lease covers: KCL's audit. `create` closes them, except for an unreadable
                  row's. For an empty table, those that the listing leaves out; then nothing is created (KCL), since a
                  later sync would start the missing shards wherever it finds them, and LATEST is later by then. List
                  again
    """

    create: tuple[NewLease, ...] = ()
    inconsistent: tuple[str, ...] = ()
    holes: tuple[HashKeyRange, ...] = ()


def plan_shard_sync(
    leases: Sequence[Lease],
    malformed: Collection[str],
    shards: Sequence[Shard],
    start_position: StartPosition,
) -> ShardSyncPlan:
    """Plan one shard sync.

    leases     all readable leases
    malformed  shard ids of unreadable rows. Each counts as an unfinished lease: it is not created again, and its
               descendants wait for it
    shards     the full listing; for an empty table, those open at the start position (ListShards' ShardFilter)
    """
    inconsistent = _inconsistent(shards)
    if not leases and not malformed:
        return _plan_first_leases(shards, inconsistent, start_position)
    listed = {shard.shard_id: shard for shard in shards}
    leased = {lease.shard_id for lease in leases}.union(malformed)
    ended = {lease.shard_id for lease in leases if lease.is_ended}
    skipped = frozenset(inconsistent) | _outlived(shards, leases)
    lost = _deleted_while_waited_for(listed, leases, leased)
    whys = dict.fromkeys((*_to_repair(listed, leased, ended, skipped), *lost), CreateReason.REPAIR)
    unfinished = {lease.shard_id for lease in leases}.difference(ended)
    waited_for = _waited_for(listed, leased, unfinished, skipped)
    whole = set(listed) if start_position.kind is not StartKind.LATEST else _outliving(shards, leases)
    found = _leading_nowhere(listed, leased.union(whys), waited_for, skipped, whole)
    whys |= {s: _why_at_latest(s, why, whole, start_position) for s, why in found.items()}
    new = sorted((listed[shard_id] for shard_id in whys), key=creation_order)
    return ShardSyncPlan(
        tuple(_new_lease(shard, whys[shard.shard_id], start_position) for shard in new),
        inconsistent,
        holes(leases, shards),
    )


def to_create_again(leases: Collection[Lease], malformed: Collection[str], shards: Sequence[Shard]) -> set[str]:
    """The shards that the next sync creates leases for because leases of their relatives show that they are still to be
    read.
    """
    listed = {shard.shard_id: shard for shard in shards}
    leased = {lease.shard_id for lease in leases}.union(malformed)
    ended = {lease.shard_id for lease in leases if lease.is_ended}
    unfinished = {lease.shard_id for lease in leases}.difference(ended)
    skipped = frozenset[str]()
    return {
        *_to_repair(listed, leased, ended, skipped),
        *_waited_for(listed, leased, unfinished, skipped),
        *_deleted_while_waited_for(listed, leases, leased),
    }


def together(plans: Sequence[ShardSyncPlan]) -> ShardSyncPlan:
    """What the syncs of several streams do. One stream's is returned as it is."""
    if len(plans) == 1:
        return plans[0]
    return ShardSyncPlan(
        tuple(new for plan in plans for new in plan.create),
        tuple(shard for plan in plans for shard in plan.inconsistent),
        tuple(hole for plan in plans for hole in plan.holes),
    )


def starts_at_latest(plan: ShardSyncPlan) -> bool:
    """Whether the sync creates a lease at LATEST. It is right only while no ancestor of the shard has a lease."""
    return any(new.lease.checkpoint == LATEST for new in plan.create)


def _plan_first_leases(
    shards: Sequence[Shard], inconsistent: tuple[str, ...], start_position: StartPosition
) -> ShardSyncPlan:
    """Leases for the shards that were open at the start position, each read from there.

    Some emulators ignore the ShardFilter and list the shards' descendants too. Those are left out (which changes
    nothing on AWS): the worker that ends their parents creates them.
    """
    at_start = [shard for shard in shards if shard.is_open or start_position.kind is not StartKind.LATEST]
    missing = gaps(shard.hash_key_range for shard in at_start)
    if missing:
        return ShardSyncPlan((), inconsistent, missing)
    ids = {shard.shard_id for shard in at_start}
    first = sorted((shard for shard in at_start if ids.isdisjoint(shard.parent_shard_ids)), key=creation_order)
    return ShardSyncPlan(tuple(_new_lease(shard, CreateReason.START, start_position) for shard in first), inconsistent)


def _inconsistent(shards: Iterable[Shard]) -> tuple[str, ...]:
    open_ids = {shard.shard_id for shard in shards if shard.is_open}
    odd = (shard for shard in shards if not open_ids.isdisjoint(shard.parent_shard_ids))
    return tuple(shard.shard_id for shard in sorted(odd, key=creation_order))


def _outlived(shards: Iterable[Shard], leases: Collection[Lease]) -> frozenset[str]:
    """Shards that are open in the listing although a child of theirs has a lease, or a later descendant that is not
    listed yet: the listing is older than the reshard. Such a shard has been read to its end, or was closed before the
    first start, and would be read beside its descendants.
    """
    listed = list(shards)
    ids = {shard.shard_id for shard in listed}
    parents = {parent for lease in leases for parent in lease.parent_shard_ids}
    unlisted = [lease for lease in leases if lease.shard_id not in ids]
    return frozenset(
        shard.shard_id
        for shard in listed
        if shard.is_open
        if shard.shard_id in parents or any(leads_to(shard, lease) for lease in unlisted)
    )


def _outliving(shards: Iterable[Shard], leases: Iterable[Lease]) -> set[str]:
    """Shards that descend from a leased shard, where neither that shard nor those in between are listed any longer.
    They were created later and share hash keys with it, since hash keys only pass from a shard to its children. A shard
    that was created earlier means that the listing is old.
    """
    listed = list(shards)
    ids = {shard.shard_id for shard in listed}
    forgotten = [lease for lease in leases if lease.shard_id not in ids]
    return {shard.shard_id for shard in listed if any(_follows_on(shard, lease) for lease in forgotten)}


def _follows_on(shard: Shard, lease: Lease) -> bool:
    """Kinesis numbers a stream's shards in the order of their creation, in ids of one length."""
    return shard.shard_id > lease.shard_id and _shares_keys(shard, lease)


def leads_to(shard: Shard, lease: Lease) -> bool:
    """Whether a lease that is not listed is of a descendant of this listed shard: then the listing is older than the
    lease.
    """
    return shard.shard_id < lease.shard_id and _shares_keys(shard, lease)


def _shares_keys(shard: Shard, lease: Lease) -> bool:
    if lease.hash_key_range is None:
        return False
    (starting, ending), of_lease = shard.hash_key_range, lease.hash_key_range
    return starting <= of_lease.ending and of_lease.starting <= ending


def _why_at_latest(
    shard_id: str, why: CreateReason, whole: AbstractSet[str], start_position: StartPosition
) -> CreateReason:
    """A descendant of a consumed shard does not start at LATEST. In KCL it does, and skips what came while it was
    unread.
    """
    is_skipped = start_position.kind is StartKind.LATEST and shard_id in whole
    return CreateReason.REPAIR if is_skipped else why


def _to_repair(
    listed: Mapping[str, Shard], leased: AbstractSet[str], ended: AbstractSet[str], skipped: AbstractSet[str]
) -> list[str]:
    """Shards without a lease whose parents have leases, each ended or past retention.

    An unfinished parent past retention still holds its children back until its lease is cleaned up. But the children
    must get leases while it is there: afterwards they look like shards that no lease ever led to.
    """
    return [
        shard.shard_id
        for shard in listed.values()
        if shard.shard_id not in leased
        and shard.shard_id not in skipped
        and not leased.isdisjoint(shard.parent_shard_ids)
        and all(parent in ended or parent not in listed for parent in shard.parent_shard_ids)
    ]


def _waited_for(
    listed: Mapping[str, Shard],
    leased: AbstractSet[str],
    unfinished: AbstractSet[str],
    skipped: AbstractSet[str],
) -> list[str]:
    """Parents without a lease whose merge has another parent with an unfinished lease.

    That other lease cannot end before they have theirs (`shard_end.Blocked`). KCL finds them only if no lease leads to
    a descendant of the merge; after a row was deleted by hand one may, and then KCL's worker waits for ever. An
    unreadable row proves nothing: it may well have ended, and the other parent's lease may have been cleaned up since.
    """
    waiting = (
        shard.parent_shard_ids
        for shard in listed.values()
        if shard.shard_id not in skipped and not unfinished.isdisjoint(shard.parent_shard_ids)
    )
    return sorted({parent for parents in waiting for parent in parents if parent in listed}.difference(leased))


def _deleted_while_waited_for(
    listed: Mapping[str, Shard],
    leases: Collection[Lease],
    leased: AbstractSet[str],
) -> list[str]:
    """A merge's parents whose rows were deleted by hand before they were read to their end. KCL never finds them.

    The child is free and has not begun, and its other parent's end has created it: that row names it. A parent that has
    ended keeps its row until the child has begun, so one without a row had not. Everything else is no proof: behind a
    first start, at LATEST, at a time or with a pin, parents have no rows because they are not to be read.

    Rows alone prove it, also beside an old listing in which the parent is still open: with the next look the child may
    begin.
    """
    by_shard = {lease.shard_id: lease for lease in leases}
    return sorted(
        {
            parent
            for child in leases
            if child.checkpoint == TRIM_HORIZON and child.start_at is None and child.actual_owner is None
            if any(_has_created(by_shard.get(other), child.shard_id) for other in child.parent_shard_ids)
            for parent in child.parent_shard_ids
            if parent in listed and parent not in leased
        }
    )


def _has_created(parent: Lease | None, child_shard_id: str) -> bool:
    return parent is not None and parent.is_ended and child_shard_id in parent.child_shard_ids


def _leading_nowhere(
    listed: Mapping[str, Shard],
    leased: AbstractSet[str],
    waited_for: Sequence[str],
    skipped: AbstractSet[str],
    whole: AbstractSet[str],
) -> dict[str, CreateReason]:
    """KCL's rule: which shards without a lease need one, so that leases lead to every open shard.

    A lease leads to a shard if the shard has one or a lease leads to one of its listed parents. Every other open shard
    gets a lease. So does each listed parent that no lease leads to, if one leads to its child: the other side of a
    merge. So does each of `waited_for`, unless a lease leads to it.

    `whole`: shards that are wanted from their beginning, which are all of them unless we start at LATEST. A lease
    always leads to such a shard if it has listed parents, and its oldest ancestors get the leases.
    """
    unleased = [
        s.shard_id for s in listed.values() if s.is_open and s.shard_id not in leased and s.shard_id not in skipped
    ]
    led_to: dict[str, bool] = {}
    whys: dict[str, CreateReason] = {}
    for shard_id in _ancestors_first((*unleased, *waited_for), listed, leased):
        parents = [] if shard_id in leased else _listed_parents(shard_id, listed)
        led_to[shard_id] = shard_id in leased or any(shard_id in whole or led_to[parent] for parent in parents)
        if led_to[shard_id]:
            whys |= {parent: CreateReason.ANCESTOR for parent in parents if not led_to[parent]}
    whys |= {shard_id: CreateReason.ANCESTOR for shard_id in waited_for if not led_to[shard_id]}
    return whys | {shard_id: CreateReason.START for shard_id in unleased if not led_to[shard_id]}


def _ancestors_first(shard_ids: Iterable[str], listed: Mapping[str, Shard], leased: AbstractSet[str]) -> Iterable[str]:
    """The shards and their listed ancestors up to the first with a lease, each once, after all its parents.

    It uses a stack instead of recursion: a stream that is resharded every hour has thousands of generations.
    """
    entered: set[str] = set()
    done: dict[str, None] = {}
    stack = list(shard_ids)
    while stack:
        shard_id = stack[-1]
        if shard_id not in entered:
            entered.add(shard_id)
            if shard_id not in leased:
                stack += (parent for parent in _listed_parents(shard_id, listed) if parent not in entered)
        else:
            done.setdefault(stack.pop())
    return done


def _listed_parents(shard_id: str, listed: Mapping[str, Shard]) -> list[str]:
    return [parent for parent in listed[shard_id].parent_shard_ids if parent in listed]


def _new_lease(shard: Shard, why: CreateReason, start_position: StartPosition) -> NewLease:
    if why is CreateReason.REPAIR:
        checkpoint = TRIM_HORIZON if start_position.at is None else AT_TIMESTAMP
    else:
        checkpoint = Checkpoint.parse(start_position.kind.value)
    lease = Lease(
        lease_key=lease_key_of(shard.shard_id),
        checkpoint=checkpoint,
        parent_shard_ids=shard.parent_shard_ids,
        hash_key_range=shard.hash_key_range,
        start_at=start_position.at,
    )
    return NewLease(lease, why)
