"""Which leases an operator has paused, and how a command changes the current control. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from sublet.decisions.manager.dispatching import DispatchedWorker, under_way
from sublet.decisions.manager.liveness import Sighting, is_expired
from sublet.decisions.manager.unread_shards import StandsStill
from sublet.errors import ControlRefused
from sublet.protocol.control import Control, Order, Pause
from sublet.protocol.lease import Lease

READ_EVERY = timedelta(seconds=10)
"""How often each process reads the control."""

SETTLES_WITHIN = timedelta(seconds=10)
"""The longest that a tick takes from its look to its dispatch, unless its machine is suspended."""

NAMED_MAX = 5
"""The most leases that a refusal names."""


def pause_of(control: Control, lease_key: str, now: datetime) -> Pause | None:
    """The pause that keeps this lease from being held at this moment. The application's counts before the shard's
    own.
    """
    for pause in (control.application, control.leases.get(lease_key)):
        if pause is not None and not is_over(pause, now):
            return pause
    return None


def is_over(pause: Pause, now: datetime) -> bool:
    return pause.until is not None and now >= pause.until


def paused(control: Control, leases: Iterable[Lease], now: datetime) -> Mapping[str, Pause]:
    """The pause of each paused lease, by lease key. An ended lease is never paused: there is nothing to hold."""
    found = {lease.lease_key: pause_of(control, lease.lease_key, now) for lease in leases if not lease.is_ended}
    return {lease_key: pause for lease_key, pause in found.items() if pause is not None}


def pausing(control: Control, pause: Pause, lease_keys: Collection[str] = ()) -> Control:
    """The control with this pause, for these leases, or for all if none is named. It replaces earlier pauses of the
    same leases, except that a request to release replaces neither a pause nor a request that lasts longer.

    Raises ControlRefused if it would end a drain: only a resume does that.
    """
    current = _without_past(control, pause.since)
    if not lease_keys:
        _check_drain(current.application, pause)
        return replace(current, application=pause)
    if pause.order is Order.RELEASE:
        lease_keys = [key for key in lease_keys if _ends_earlier(current.leases.get(key), pause)]
    return replace(current, leases={**current.leases, **dict.fromkeys(lease_keys, pause)})


def replaced(before: Control, after: Control, pause: Pause) -> tuple[Pause, ...]:
    """The pauses that would still be in force if this one had not replaced them. Each once."""
    pairs = [(before.application, after.application)]
    pairs += [(before.leases.get(key), existing) for key, existing in after.leases.items()]
    gone = [was for was, existing in pairs if existing == pause and was is not None and was != pause]
    return tuple(dict.fromkeys(was for was in gone if not is_over(was, pause.since)))


def _check_drain(existing: Pause | None, pause: Pause) -> None:
    if existing is not None and existing.order is Order.DRAIN and pause.until is not None:
        raise ControlRefused(
            f"{existing.by} has drained the application, and a pause with an end would end that too: nothing was "
            "changed. `sublet resume` ends the drain"
        )


def _ends_earlier(existing: Pause | None, request: Pause) -> bool:
    """Whether `existing` is another request to release that ends before this one."""
    if existing is None:
        return True
    if existing.order is not Order.RELEASE or existing.until is None or request.until is None:
        return False
    return existing.until < request.until


def is_ended(control: Control, pause: Pause, lease_keys: Collection[str], now: datetime) -> bool:
    """Whether another operator has ended this pause of these leases (of the application if none is named), or has
    replaced a pause without an end by one that ends by itself.
    """
    if not lease_keys:
        existing = control.application
        return existing is None or (pause.until is None and existing.until is not None)
    return not is_over(pause, now) and any(pause_of(control, key, now) is None for key in lease_keys)


def resuming(control: Control, now: datetime, lease_keys: Collection[str] = ()) -> Control:
    """The control without the pauses of these leases, or without any pause if no lease is named. Raises ControlRefused
    if the leases are not paused, or would stay paused with the whole application.
    """
    current = _without_past(control, now)
    if not lease_keys:
        return replace(current, application=None, leases={})
    if current.application is not None:
        raise ControlRefused(
            "the whole application is paused: resume it without naming shards, then pause those that are to stay paused"
        )
    if unknown := sorted(set(lease_keys) - current.leases.keys()):
        raise ControlRefused(
            f"{', '.join(unknown)}: not paused, and nothing was changed; paused: "
            f"{_named(sorted(current.leases)) or 'none'}"
        )
    left = {key: pause for key, pause in current.leases.items() if key not in lease_keys}
    return replace(current, leases=left)


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more


def without(control: Control, pause: Pause, lease_keys: Collection[str]) -> Control:
    """The control without exactly this pause of these leases. A pause that was ordered since stays."""
    left = {key: each for key, each in control.leases.items() if key not in lease_keys or each != pause}
    return replace(control, leases=left)


def _without_past(control: Control, now: datetime) -> Control:
    whole = control.application
    return replace(
        control,
        application=None if whole is None or is_over(whole, now) else whole,
        leases={key: pause for key, pause in control.leases.items() if not is_over(pause, now)},
    )


def not_merely_paused(
    standing: Sequence[StandsStill], stopped: Collection[str], retention: timedelta
) -> tuple[StandsStill, ...]:
    """The shards that stand still and count for an alarm. A paused shard stands still on purpose, so it counts only
    once its first record has waited for half of the retention.
    """
    return tuple(
        one for one in standing if one.is_held or one.lease.lease_key not in stopped or one.waiting >= retention / 2
    )


def held(
    leases: Iterable[Lease], sightings: Mapping[str, Sighting], now: datetime, failover_time: timedelta
) -> tuple[Lease, ...]:
    """The leases that a worker is known to hold: an owner that was silent for failover_time holds nothing."""
    return tuple(
        lease
        for lease in leases
        if not lease.is_ended
        and lease.actual_owner is not None
        and not is_expired(lease, sightings, now, failover_time)
    )


def unreleased(
    leases: Iterable[Lease],
    sightings: Mapping[str, Sighting],
    dispatched: Mapping[str, DispatchedWorker],
    now: datetime,
    failover_time: timedelta,
) -> tuple[Lease, ...]:
    """The leases that a worker holds, or may still acquire because an earlier tick has sent a worker."""
    known = tuple(leases)
    owned = {lease.lease_key for lease in held(known, sightings, now, failover_time)}
    on_their_way = under_way(dispatched, [lease for lease in known if not lease.is_ended], now)
    return tuple(lease for lease in known if lease.lease_key in owned or lease.lease_key in on_their_way)


def is_settled(since: datetime, now: datetime) -> bool:
    """Whether every tick that read the control before its change at `since` has finished its dispatch. Both moments are
    by a steady clock.
    """
    return now - since >= SETTLES_WITHIN


def is_of_another_client(lease: Lease) -> bool:
    """Whether its owner is a worker of KCL or of another client, which obeys none of our orders: only our writes name a
    holder.
    """
    return lease.actual_owner is not None and lease.held_by is None


def check_owners(owned: Iterable[Lease], order: Order) -> None:
    """Raises ControlRefused, which names the leases, if workers of other clients hold any.

    It also does so if these are not the leases to be paused: such workers would take each lease that is released, and
    go on with it. If we held it instead, KCL 2.x would steal it, and a KCL 3.x leader would assign it to another
    worker.
    """
    theirs = [lease for lease in owned if is_of_another_client(lease)]
    if not theirs:
        return
    named = _named([f"{lease.lease_key} by {lease.actual_owner}" for lease in theirs])
    raise ControlRefused(
        f"nothing was changed: KCL or another client holds {named}, which no {order.value} reaches. Its workers would "
        "take what ours release: stop them first"
    )
