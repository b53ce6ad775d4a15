"""Announced joins and drains: after one, every process scans the leases each second for a while, not just at its next
tick.

A process scans the leases a few times a minute. So a released lease waits for the next scan of another process, and a
lease that should move has to be stolen. The process that causes either knows it beforehand. It announces this beside
the sightings, which every tick reads anyway, so there are no extra reads as long as no process announces anything. An
announcement promises and permits nothing, since every write keeps its own condition. A missing one costs the usual
wait, a stale one costs scans, and each lapses by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from msgspec import Struct

from sublet.decisions.manager.choose_leases import ClaimReason, LeaseChoice
from sublet.decisions.manager.dispatching import DispatchedWorker, asked_of, is_recent
from sublet.decisions.manager.liveness import Sighting, next_expiry
from sublet.protocol.lease import Lease
from sublet.settings import Settings

LOOK_EVERY = timedelta(seconds=1)
LOOKS_IN_A_TICK = 40
"""The most scans within one tick interval while something is announced, however long failover_time is."""
STANDS_FOR_TICKS = 3
"""After one tick every process has read it, and two more are left to act on it. A rolling deployment announces its next
step within these two.
"""
ROWS_A_SECOND = 20_000
"""The most rows that all processes together scan while they scan more often: about 1,000 DynamoDB read units a
second.
"""
LEAVES_WITHIN = timedelta(seconds=8)
"""How long a leaving process waits at most until others have read its announcement: `docker stop` kills after ten
seconds.
"""
ASKED_FOR = timedelta(seconds=5)
"""How long an owner that scans each second has to release a requested lease before it is stolen."""


JOINS_AGAIN_AFTER, JOINS_AGAIN_MAX = timedelta(seconds=1), timedelta(seconds=5)
"""The pause doubles from the first to the second: a whole account may describe its streams twenty times a second."""


class AnnouncementKind(StrEnum):
    JOINS = "joins"
    ASKS = "asks"
    """The process is about to take leases from others, for a fair share."""
    LEAVES = "leaves"


class Announcement(Struct, frozen=True):
    what: AnnouncementKind
    at: datetime


NOTHING_ANNOUNCED: Mapping[str, Announcement] = MappingProxyType({})
"""No announcements, by worker id."""


class NextLook(NamedTuple):
    after: timedelta
    why: str


def tick_interval(settings: Settings) -> timedelta:
    """The time between two scans of a process. An owner's death is noticed after failover_time plus one interval at
    most: the scan that first finds an owner silent schedules the next for when that owner counts as lost (`next_look`).
    """
    return settings.failover_time * 2 / 3


def standing(announced: Mapping[str, Announcement], now: datetime, settings: Settings) -> Mapping[str, Announcement]:
    """Announcements that have not lapsed. One from a clock that is far ahead counts as lapsed."""
    within = STANDS_FOR_TICKS * tick_interval(settings)
    return {who: said for who, said in announced.items() if is_recent(said.at, now, within)}


def joining(announced: Mapping[str, Announcement], now: datetime) -> frozenset[str]:
    """Worker ids that count as workers before they hold a lease, for as long as acquiring the first leases may take."""
    return frozenset(
        who
        for who, said in announced.items()
        if said.what is AnnouncementKind.JOINS and is_recent(said.at, now, ASKED_FOR)
    )


def long_lapsed(announced: Mapping[str, Announcement], now: datetime, settings: Settings) -> frozenset[str]:
    """Announcements to delete. They are kept for a while after they lapse, because `is_heard` uses lapsed ones too."""
    within = 10 * STANDS_FOR_TICKS * tick_interval(settings)
    return frozenset(who for who, said in announced.items() if not is_recent(said.at, now, within))


def next_look(
    announced: Mapping[str, Announcement],
    now: datetime,
    leases: int,
    workers: int,
    settings: Settings,
    expiry: datetime | None = None,
) -> NextLook:
    """`leases` and `workers` are counts: each scan of each worker reads all leases. `expiry`: `next_expiry`."""
    interval = tick_interval(settings)
    paced = max(LOOK_EVERY, interval / LOOKS_IN_A_TICK, timedelta(seconds=leases * workers / ROWS_A_SECOND))
    heard = standing(announced, now, settings)
    if heard:
        newest = max(heard, key=lambda who: heard[who].at)
        return NextLook(min(interval, paced), f"{newest} {heard[newest].what}")
    if expiry is not None and (after := max(paced, expiry - now)) < interval:
        return NextLook(after, "a silent owner counts as lost then")
    return NextLook(interval, "nothing is announced")


def is_heard(announced: Mapping[str, Announcement], now: datetime, settings: Settings) -> bool:
    """Whether every live process scans often by now, and will for a while: an announcement is at least a tick old, and
    each later one came before the previous one lapsed.
    """
    interval = tick_interval(settings)
    heard: tuple[datetime, datetime] | None = None
    for at in sorted(said.at for said in announced.values() if said.at <= now):
        since = at + interval + LOOK_EVERY if heard is None or at >= heard[1] else heard[0]
        heard = since, at + STANDS_FOR_TICKS * interval
    return heard is not None and heard[0] <= now and now + min(ASKED_FOR, interval) <= heard[1]


class StealRequests(NamedTuple):
    """`choices`: act on these now. `announces`: whether to announce first that some of them will be stolen."""

    choices: tuple[LeaseChoice, ...]
    announces: bool


def ask_first(
    choices: Sequence[LeaseChoice], announced: Mapping[str, Announcement], now: datetime, settings: Settings
) -> StealRequests:
    """Nothing is stolen before every process has read the announcement: an owner that scans often releases a requested
    lease with everything checkpointed, while after a steal the thief repeats what its victim was handling. A leaving
    process is not stolen from, since it releases all its leases.
    """
    if is_heard(announced, now, settings):
        heard = standing(announced, now, settings)
        leaving = {who for who, said in heard.items() if said.what is AnnouncementKind.LEAVES}
        return StealRequests(tuple(one for one in choices if not _steals_from(one, leaving)), announces=False)
    others = tuple(one for one in choices if one.why is not ClaimReason.STEAL)
    is_said = any(one.worker_id in standing(announced, now, settings) for one in choices)
    return StealRequests(others, announces=len(others) < len(choices) and not is_said)


def heard_within(announced: Mapping[str, Announcement], now: datetime, is_alone: bool, settings: Settings) -> timedelta:
    """How long a leaving process keeps its leases, so that others scan often by the time it releases them."""
    if is_alone or is_heard(announced, now, settings):
        return timedelta(0)
    return min(tick_interval(settings) + LOOK_EVERY, LEAVES_WITHIN)


def asked_for(settings: Settings) -> timedelta:
    """How long to wait for a requested lease. A steal is decided for the row as it was read, and is valid for a
    failover_time.
    """
    return min(ASKED_FOR, settings.failover_time / 2)


def joins_again_after(failures: int) -> timedelta:
    """The pause before the next attempt to join, after this many failures in a row to reach AWS."""
    return min(JOINS_AGAIN_AFTER * (1 << min(failures - 1, 30)), JOINS_AGAIN_MAX)


class AmongOthers(Struct, frozen=True):
    """What one scan of the leases tells a process about the others.

    requested lease keys of its own that another worker is on its way to steal
    is_alone  no other process holds a lease or has announced anything
    """

    requested: frozenset[str]
    is_alone: bool
    next_look: NextLook


def among_others(
    leases: Sequence[Lease],
    sightings: Mapping[str, Sighting],
    dispatched: Mapping[str, DispatchedWorker],
    announced: Mapping[str, Announcement],
    now: datetime,
    settings: Settings,
) -> AmongOthers:
    own = settings.own_worker_ids
    owners = {lease.actual_owner for lease in leases if not lease.is_ended}.difference([None])
    expiry = next_expiry(leases, sightings, now, settings.failover_time)
    return AmongOthers(
        asked_of(own, dispatched, leases, now),
        is_alone=(owners | standing(announced, now, settings).keys()).issubset(own),
        next_look=next_look(announced, now, len(leases), len(owners.union(own)), settings, expiry),
    )


def _steals_from(choice: LeaseChoice, leaving: set[str]) -> bool:
    return choice.why is ClaimReason.STEAL and choice.lease.lease_owner in leaving
