"""Joins and drains, announced: who hears of one looks each second for a while, instead of at its next tick.

A process looks a few times a minute, so that a lease which is given back waits for the next look of somebody else, and one that
is to change hands has to be taken from its owner. Both are known beforehand to the process that causes them. It says so beside
the sightings, where every tick reads anyway: while nothing is announced, nothing more is read. What is announced promises
nothing and permits nothing: every write has its own condition as ever. So one that is missing costs the wait that there was
without it, one that is stale costs looks, and each lapses by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from msgspec import Struct

from sublet.decisions.choose_leases import Choice, ClaimReason
from sublet.decisions.dispatching import Dispatched, asked_of, is_recent
from sublet.decisions.liveness import Sighting, next_expiry
from sublet.protocol.lease import Lease
from sublet.settings import Settings

LOOK_EVERY = timedelta(seconds=1)
LOOKS_IN_A_TICK = 40
"""At most: so many instead of one while something is announced, however long failover_time is."""
STANDS_FOR_TICKS = 3
"""One until everybody has heard of it, and two in which to act on it: the next of a rolling deployment comes within those."""
ROWS_A_SECOND = 20_000
"""That all processes together scan at most while they look more often: some 1,000 of DynamoDB's read units."""
LEAVES_WITHIN = timedelta(seconds=8)
"""How long one that leaves waits to be heard at most: `docker stop` kills after ten seconds."""
ASKED_FOR = timedelta(seconds=5)
"""How long an owner that looks each second is given to leave what it is asked for; then it is stolen."""


JOINS_AGAIN_AFTER, JOINS_AGAIN_MAX = timedelta(seconds=1), timedelta(seconds=5)
"""Doubled from the first to the second: Kinesis answers a whole account's questions about its streams twenty times a second."""


class What(StrEnum):
    JOINS = "joins"
    ASKS = "asks"
    """It is to have leases of others, by their shares."""
    LEAVES = "leaves"


class Announcement(Struct, frozen=True):
    what: What
    at: datetime


NOTHING_ANNOUNCED: Mapping[str, Announcement] = MappingProxyType({})
"""By worker id."""


class NextLook(NamedTuple):
    after: timedelta
    why: str


def tick_interval(settings: Settings) -> timedelta:
    """Between two looks of a process: an owner's death is seen by failover_time plus one of these, since the first look to find
    an owner silent has another one follow as soon as that owner counts as lost (`next_look`)."""
    return settings.failover_time * 2 / 3


def standing(
    announced: Mapping[str, Announcement], now: datetime, settings: Settings
) -> Mapping[str, Announcement]:
    """Those that have not lapsed. One by a clock that is far ahead has."""
    within = STANDS_FOR_TICKS * tick_interval(settings)
    return {who: said for who, said in announced.items() if is_recent(said.at, now, within)}


def joining(announced: Mapping[str, Announcement], now: datetime) -> frozenset[str]:
    """Who counts as a worker before it holds anything: for as long as it takes to come by its first leases, if it ever does."""
    return frozenset(
        who
        for who, said in announced.items()
        if said.what is What.JOINS and is_recent(said.at, now, ASKED_FOR)
    )


def long_lapsed(announced: Mapping[str, Announcement], now: datetime, settings: Settings) -> frozenset[str]:
    """What nobody needs any more: `is_heard` goes by what has lapsed, too."""
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
    """`leases` and `workers`: how many there are, since each look of each worker scans all leases. `expiry`: `next_expiry`."""
    interval = tick_interval(settings)
    paced = max(LOOK_EVERY, interval / LOOKS_IN_A_TICK, timedelta(seconds=leases * workers / ROWS_A_SECOND))
    heard = standing(announced, now, settings)
    if heard:
        newest = max(heard, key=lambda who: heard[who].at)
        return NextLook(min(interval, paced), f"{newest} {heard[newest].what}")
    if expiry is not None and (after := max(paced, expiry - now)) < interval:
        return NextLook(after, "an owner that is silent counts as lost then")
    return NextLook(interval, "nothing is announced")


def is_heard(announced: Mapping[str, Announcement], now: datetime, settings: Settings) -> bool:
    """Whether everybody who is alive looks often by now, and for a while to come: since a tick ago something was announced, and
    before that lapsed, perhaps, something else.
    """
    interval = tick_interval(settings)
    heard: tuple[datetime, datetime] | None = None
    for at in sorted(said.at for said in announced.values() if said.at <= now):
        since = at + interval + LOOK_EVERY if heard is None or at >= heard[1] else heard[0]
        heard = since, at + STANDS_FOR_TICKS * interval
    return heard is not None and heard[0] <= now and now + min(ASKED_FOR, interval) <= heard[1]


class Asking(NamedTuple):
    """`choices`: what is to be acted on now; `announces`: whether it is to be said first that some of them are to be stolen."""

    choices: tuple[Choice, ...]
    announces: bool


def ask_first(
    choices: Sequence[Choice], announced: Mapping[str, Announcement], now: datetime, settings: Settings
) -> Asking:
    """Nothing is stolen before everybody has heard that something will be: an owner that looks often leaves what it is asked for
    with everything checkpointed, while a thief would repeat what its victim is handling. One that leaves is not stolen from:
    it gives all back.
    """
    if is_heard(announced, now, settings):
        heard = standing(announced, now, settings)
        leaving = {who for who, said in heard.items() if said.what is What.LEAVES}
        return Asking(tuple(one for one in choices if not _steals_from(one, leaving)), announces=False)
    others = tuple(one for one in choices if one.why is not ClaimReason.STEAL)
    is_said = any(one.worker_id in standing(announced, now, settings) for one in choices)
    return Asking(others, announces=len(others) < len(choices) and not is_said)


def heard_within(
    announced: Mapping[str, Announcement], now: datetime, is_alone: bool, settings: Settings
) -> timedelta:
    """How long one that leaves goes on with its leases, so that others look often by the time that it gives them back."""
    if is_alone or is_heard(announced, now, settings):
        return timedelta(0)
    return min(tick_interval(settings) + LOOK_EVERY, LEAVES_WITHIN)


def asked_for(settings: Settings) -> timedelta:
    """How long what is asked for is waited for. A steal is made for what was seen, and holds for a failover_time."""
    return min(ASKED_FOR, settings.failover_time / 2)


def joins_again_after(failures: int) -> timedelta:
    """What a program waits that could not join so often in a row, since AWS could not be reached."""
    return min(JOINS_AGAIN_AFTER * (1 << min(failures - 1, 30)), JOINS_AGAIN_MAX)


class AmongOthers(Struct, frozen=True):
    """What a process' look at the leases says of what it has to do with others.

    gives      lease keys of its own that another is on its way to steal
    is_alone   nobody else holds a lease, or has announced anything
    """

    gives: frozenset[str]
    is_alone: bool
    next_look: NextLook


def among_others(
    leases: Sequence[Lease],
    sightings: Mapping[str, Sighting],
    dispatched: Mapping[str, Dispatched],
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


def _steals_from(choice: Choice, leaving: set[str]) -> bool:
    return choice.why is ClaimReason.STEAL and choice.lease.lease_owner in leaving
