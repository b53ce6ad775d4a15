"""Shards that stand still, as the lease manager sees it: whether a record follows the checkpoint, and for how long it
has waited.

A worker reports on the shards that it reads. There is no report on a shard without an owner, or whose owners all fail
before their first page; and reports of another fleet's worker, or in an unread log, reach no alarm. So each tick asks
Kinesis about some of the shards, held or not, whose rows do not show that they were read to the tip lately.

`probe` has what a shard answers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from sublet.decisions.manager.liveness import Sighting, is_expired
from sublet.decisions.manager.probe import Probe, ProbeResult
from sublet.decisions.session.quiet import begun, opened_at
from sublet.decisions.session.read_position import after, is_unopened, read_position
from sublet.decisions.time_and_chance import Chance
from sublet.protocol.lease import Lease
from sublet.settings import Settings

PROBES_MAX = 10
"""How many unowned shards a tick asks about. The alarm is on the worst shard, so if many stand still, a few are
enough.
"""

HELD_PROBES_MAX = 40
"""How many owned shards a tick asks about. All of them may be well, so it takes more to find one that is not."""

CAUGHT_UP_LATELY = timedelta(minutes=5)

HELD_CAUGHT_UP_LATELY = timedelta(minutes=2)
"""If all is well, a held lease's row was at the tip this recently: the owner notes it with its heartbeats and
checkpoints.
"""

REMEMBERED_EVERY = timedelta(minutes=10)
"""How often to store how far a shard has been walked, so that an idle fleet writes nothing, and a shard with a foreign
owner is not written in each tick.
"""


class UnreadShard(Struct, frozen=True):
    """What earlier ticks have found after this checkpoint.

    since        a record has waited there at least since then; None if none is known
    quiet_until  nothing arrived there before; None if no more is known than the row says
    owner        who held the lease when a record was last found waiting; None if nobody did
    owned_since  since when that owner is known to have held it
    """

    checkpoint: str
    since: datetime | None
    quiet_until: datetime | None = None
    owner: str | None = None
    owned_since: datetime | None = None


class StandsStill(Struct, frozen=True):
    """A shard with records to come that is known to have stood still for `age`. `waiting`: how long its first record
    has waited; `is_held`: by a live owner.
    """

    lease: Lease
    waiting: timedelta
    age: timedelta
    is_held: bool = False


NONE_UNREAD: Mapping[str, UnreadShard] = MappingProxyType({})


class ProbeSelection(NamedTuple):
    """Leases whose shards to ask about, without and with a live owner."""

    unheld: tuple[Lease, ...] = ()
    held: tuple[Lease, ...] = ()


def choose_probes(
    leases: Sequence[Lease],
    sightings: Mapping[str, Sighting],
    unread: Mapping[str, UnreadShard],
    now: datetime,
    chance: Chance,
    settings: Settings,
    waits_for: Iterable[str] = (),
    found_quiet: Collection[str] = (),
) -> ProbeSelection:
    """Chooses first the shards that are known to stand still, then those that have shown nothing for longest. Leaves
    out shards that were read to their tip a moment ago, or that wait for a parent. `waits_for`: shards whose rows are
    unreadable. `found_quiet`: leases whose shards this tick has found quiet.
    """
    unfinished = {lease.shard_id for lease in leases if not lease.is_ended}.union(waits_for)
    candidates: dict[bool, list[Lease]] = {False: [], True: []}
    for lease in leases:
        if lease.lease_key in found_quiet:
            continue
        is_held = _is_held(lease, sightings, now, settings)
        lately = HELD_CAUGHT_UP_LATELY if is_held else CAUGHT_UP_LATELY
        heard_of = _heard_of(lease)
        if may_be_read(lease, unfinished) and (heard_of is None or abs(now - heard_of) >= lately):
            candidates[is_held].append(lease)
    return ProbeSelection(
        _most_urgent(candidates[False], unread, PROBES_MAX, now, chance),
        _most_urgent(candidates[True], unread, HELD_PROBES_MAX, now, chance),
    )


def _most_urgent(
    candidates: list[Lease], unread: Mapping[str, UnreadShard], most: int, now: datetime, chance: Chance
) -> tuple[Lease, ...]:
    if len(candidates) > most:
        chance.shuffle(candidates)
    long_ago = datetime.min.replace(tzinfo=now.tzinfo)

    def urgency(lease: Lease) -> tuple[bool, datetime]:
        known = known_of(lease, unread)
        stands_still = known is not None and known.since is not None
        asked = None if known is None else known.quiet_until
        return not stands_still, max((at for at in (asked, _heard_of(lease)) if at), default=long_ago)

    return tuple(sorted(candidates, key=urgency)[:most])


def _is_held(lease: Lease, sightings: Mapping[str, Sighting], now: datetime, settings: Settings) -> bool:
    return lease.actual_owner is not None and not is_expired(lease, sightings, now, settings.failover_time)


def _heard_of(lease: Lease) -> datetime | None:
    """When the lease's row last showed that the shard was read to its tip."""
    return max((at for at in (lease.caught_up_at, lease.quiet_until) if at is not None), default=None)


def may_be_read(lease: Lease, unfinished: Collection[str]) -> bool:
    """Whether the shard may have records to come, and waits for no parent. `unfinished`: shard ids."""
    return not lease.is_ended and not is_unopened(lease) and lease.parent_shard_ids.isdisjoint(unfinished)


def first_probes(chosen: ProbeSelection, unread: Mapping[str, UnreadShard]) -> Mapping[str, Probe]:
    """The probes before their first page, by lease key."""
    return {
        lease.lease_key: probe
        for leases, is_held in ((chosen.unheld, False), (chosen.held, True))
        for lease in leases
        if (probe := _probe_of(lease, unread, is_held=is_held)) is not None
    }


def _probe_of(lease: Lease, unread: Mapping[str, UnreadShard], *, is_held: bool) -> Probe | None:
    """Begins where the shard is known to be quiet, or behind what is handled. None: it has ended."""
    position = read_position(lease)
    if position is None:
        return None
    known = known_of(lease, unread)
    moments = (lease.quiet_until, None if known is None else known.quiet_until)
    until = max((at for at in moments if at is not None), default=None)
    if until is not None:
        at = opened_at(until, position)
    else:
        at = after(position.sequence_number) if position.sequence_number else position
    return Probe(lease, at, is_held, walked=begun(at))


def stand_still(
    probes: Iterable[Probe], unread: Mapping[str, UnreadShard], now: datetime, checkpoint_interval: timedelta
) -> tuple[StandsStill, ...]:
    """The shards that stand still. If a shard has moved since the last look, or had no records then, it is only known
    that it has some now. An owner is not to blame for the time before it acquired the lease, as a program that pulls
    now and then; and one of ours checkpoints after an interval, and is not late before that.
    """
    found = []
    for probe in probes:
        if probe.waiting is None:
            continue
        known = known_of(probe.lease, unread)
        known_for = timedelta(0) if known is None or known.since is None else now - known.since
        if probe.is_held:
            known_for = min(known_for, _owned_for(probe.lease, known, now))
        if probe.is_held and probe.lease.held_by is not None:
            known_for -= checkpoint_interval
        age = max(min(known_for, probe.waiting), timedelta(0))
        found.append(StandsStill(probe.lease, probe.waiting, age, probe.is_held))
    return tuple(found)


def _owned_for(lease: Lease, known: UnreadShard | None, now: datetime) -> timedelta:
    """For how long the lease is known to have had its owner while a record waited."""
    if known is None or known.owned_since is None or known.owner != lease.actual_owner:
        return timedelta(0)
    return now - known.owned_since


def remembered(
    leases: Iterable[Lease],
    probes: Iterable[Probe],
    unread: Mapping[str, UnreadShard],
    now: datetime,
) -> Mapping[str, UnreadShard]:
    """Returns what the next tick needs to know. Earlier findings stay true while the checkpoint stays the same, whether
    the shard was asked or not.
    """
    asked = {probe.lease.lease_key: probe for probe in probes}
    kept = {}
    for lease in leases:
        key, known = lease.lease_key, known_of(lease, unread) or UnreadShard(_place(lease), None)
        probe = asked.get(key)
        if probe is not None and probe.answer is not ProbeResult.UNKNOWN:
            known = replace(known, since=_waits_since(probe, known.since, now))
        known = replace(_with_owner(known, lease, now), quiet_until=_remembered_until(lease, known, probe))
        if known.since is not None or known.quiet_until is not None:
            kept[key] = known
    return kept


def _with_owner(known: UnreadShard, lease: Lease, now: datetime) -> UnreadShard:
    owner = None if known.since is None else lease.actual_owner
    if owner == known.owner:
        return known
    return replace(known, owner=owner, owned_since=None if owner is None else now)


def _waits_since(probe: Probe, since: datetime | None, now: datetime) -> datetime | None:
    """Since when a record waits: at the earliest since the first waiting record arrived; if a clock was ahead, from now
    on.
    """
    if probe.waiting is None:
        return None
    return max(min(since or now, now), now - probe.waiting)


def _remembered_until(lease: Lease, known: UnreadShard, probe: Probe | None) -> datetime | None:
    """Until when the shard is known to be quiet. None, to save a write, unless this is well beyond what the row or the
    note says.
    """
    until = None if probe is None else probe.quiet_until
    if until is None or (known.quiet_until is not None and until - known.quiet_until < REMEMBERED_EVERY):
        until = known.quiet_until
    by_the_row = lease.quiet_until
    is_news = until is not None and (by_the_row is None or until - by_the_row >= REMEMBERED_EVERY)
    return until if is_news else None


def known_of(lease: Lease, unread: Mapping[str, UnreadShard]) -> UnreadShard | None:
    """What is known for this very checkpoint. A record that waited is handled if the shard was read to its tip since,
    even if the checkpoint is the same: the shard may have held nothing to checkpoint (KCL).
    """
    known, heard_of = unread.get(lease.lease_key), _heard_of(lease)
    if known is None or known.checkpoint != _place(lease):
        return None
    is_over = known.since is not None and heard_of is not None and heard_of > known.since
    return replace(known, since=None) if is_over else known


def _place(lease: Lease) -> str:
    checkpoint, start_at = lease.position
    return str(checkpoint) if start_at is None else f"{checkpoint}/{start_at.isoformat()}"
