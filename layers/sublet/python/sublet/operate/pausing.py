"""Orders and ends an operator's pauses, and waits until the leases are released."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

from sublet.decisions.manager.liveness import Sighting, ahead_by, observe
from sublet.decisions.session.control import (
    READ_EVERY,
    check_owners,
    held,
    is_ended,
    is_settled,
    pausing,
    replaced,
    resuming,
    unreleased,
    without,
)
from sublet.decisions.streams.operated_streams import shard_named, streams_of
from sublet.errors import ControlRefused, ControlUnreadable, SettingsError
from sublet.operate.formatting import time_text
from sublet.ports import Clock, ControlStore, Ports
from sublet.protocol.control import Control, Order, Pause
from sublet.protocol.lease import Lease, LeaseScan, lease_key_of
from sublet.protocol.stream_key import stream_key_of
from sublet.settings import Settings
from sublet.settings.text import parse_duration, parse_moment

TRIES = 5
"""How often to try one change, because other operators may change the control in between."""

LOOK_EVERY = timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class OrderedPause:
    """A pause as it was ordered.

    leases    the leases that it pauses
    held      those that a worker still holds, and will release
    replaces  the earlier pauses that it replaces
    """

    pause: Pause
    leases: tuple[Lease, ...]
    held: tuple[Lease, ...]
    replaces: tuple[Pause, ...] = ()


@dataclass(slots=True)
class ApplicationControl:
    """The control of one application, as commands and pages change it."""

    application: str
    ports: Ports
    settings: Settings

    def pause(self, order: Order, by: str, ends: Callable[[datetime], datetime] | None = None) -> Pause:
        """Creates a pause that begins now, in whole milliseconds as it is stored. `ends` computes from now when the
        pause ends by itself. Raises ControlRefused for a moment in the past.
        """
        now = _in_milliseconds(self._now())
        until = None if ends is None else _in_milliseconds(ends(now))
        if until is not None and until <= now:
            raise ControlRefused(f"{time_text(until)} is in the past: give a later end. Nothing was changed")
        return Pause(order, now, by, until)

    def order(self, pause: Pause, shards: Collection[str] = ()) -> OrderedPause:
        """Pauses these shards, or all. Raises ControlRefused, ControlUnreadable and what LeaseTable raises."""
        planned = self.planned(pause, shards)
        named = sorted(lease.lease_key for lease in planned.leases) if shards else ()
        before, after = self._change(partial(pausing, pause=pause, lease_keys=named))
        return replace(planned, replaces=replaced(before, after, pause))

    def planned(self, pause: Pause, shards: Collection[str] = ()) -> OrderedPause:
        """Returns what `order` would do, and changes nothing. Raises ControlRefused and what LeaseTable raises."""
        scan, remembered = self.ports.table.scan(), self.ports.sightings.load()
        meant = self._of(scan.leases, _named(shards, scan))
        now = self.ports.clock.now()
        now -= ahead_by(now, scan.at)
        owned = held(scan.leases, remembered.sightings, now, self.settings.failover_time)
        keys = {lease.lease_key for lease in meant}
        concerned = tuple(lease for lease in owned if lease.lease_key in keys)
        check_owners(concerned if pause.order is Order.RELEASE else owned, pause.order)
        return OrderedPause(pause, meant, concerned)

    def drain(self, by: str, timeout: timedelta, show: Callable[[Sequence[Lease]], None]) -> OrderedPause:
        """Pauses all shards, and waits until every lease is released. `held` in the result has the leases that were not
        released in time; the pause then stays in force. Raises what `order` raises, and ControlRefused if another
        operator ends it meanwhile.
        """
        ordered = self.order(self.pause(Order.DRAIN, by))
        stands = partial(self._check_stands, ordered.pause)
        releasing = ReleaseWatch(self.ports, self.settings, stands, settled_since=self.ports.clock.steady())
        return replace(ordered, held=releasing.wait(timeout, show))

    def release(self, by: str, shard: str, timeout: timedelta, show: Callable[[Sequence[Lease]], None]) -> OrderedPause:
        """Asks the owner to release one lease, waits for that, and withdraws the request. `held` in the result has the
        lease if it was not released in time. Raises what `order` raises, and ControlRefused if another operator ends
        the request meanwhile or the timeout is too short for any worker to read it.
        """
        if timeout <= READ_EVERY:
            raise ControlRefused(
                f"a timeout of {timeout.total_seconds():g} s is too short, because workers read orders every "
                f"{READ_EVERY.seconds} s: give a longer --timeout. Nothing was changed"
            )
        (shard,) = self.named([shard])
        ordered = self.order(self.pause(Order.RELEASE, by, lambda now: now + timeout), [shard])
        try:
            stands = partial(self._check_stands, ordered.pause, [lease_key_of(shard)])
            releasing = ReleaseWatch(self.ports, self.settings, stands, frozenset({shard}))
            left = releasing.wait(timeout, show) if ordered.held else ()
        finally:
            self.take_back(ordered.pause, [shard])
        return replace(ordered, held=left)

    def resume(self, shards: Collection[str] = ()) -> Mapping[str, Pause]:
        """Ends the pauses of these shards, or all pauses. Returns them by lease key, and a pause of the whole
        application under the application's name. Raises ControlRefused.
        """
        now, shards = self._now(), self.named(shards)
        before, after = self._change(partial(resuming, now=now, lease_keys=[lease_key_of(shard) for shard in shards]))
        ended = {key: pause for key, pause in before.leases.items() if key not in after.leases}
        whole = before.application if after.application is None else None
        return ended if whole is None else {self.application: whole, **ended}

    def named(self, shards: Collection[str]) -> tuple[str, ...]:
        """Returns the shards' full names. Raises ShardNotFound if it is not clear which are meant, and what LeaseTable
        raises.
        """
        return _named(shards, self.ports.table.scan()) if shards else ()

    def take_back(self, pause: Pause, shards: Collection[str]) -> None:
        """Ends exactly this pause of these shards, whatever others have ordered since."""
        self._change(partial(without, pause=pause, lease_keys=[lease_key_of(shard) for shard in shards]))

    def _check_stands(self, pause: Pause, lease_keys: Collection[str] = ()) -> None:
        stands = self._store.control()
        if not is_ended(stands, pause, lease_keys, _by_the_store(self._store, self.ports.clock)):
            return
        whole = stands.application
        instead = "" if whole is None else f" by a pause of {whole.by}, which ends by itself"
        raise ControlRefused(
            f"the {pause.order.value} was ended meanwhile{instead or ' by a resume'}: workers may take the leases again"
        )

    def _now(self) -> datetime:
        """By the store's clock, which every worker goes by: this machine's may be wrong."""
        with suppress(ControlUnreadable):
            self._store.control()
        return _by_the_store(self._store, self.ports.clock)

    def standing(self) -> Control:
        """Raises ControlRefused and ControlUnreadable."""
        return self._store.control()

    @property
    def _store(self) -> ControlStore:
        if self.ports.control is None:
            raise ControlRefused(f"application {self.application} has no control")
        return self.ports.control

    def _change(self, change: Callable[[Control], Control]) -> tuple[Control, Control]:
        """Changes the control. Returns the one before and the one after."""
        for _ in range(TRIES):
            before = self._store.control()
            after = change(before)
            if self._store.keep_control(after):
                return before, after
        raise ControlRefused(
            f"other operators changed the control of {self.application} during each of {TRIES} tries: try again"
        )

    def _of(self, leases: Sequence[Lease], shards: Collection[str]) -> tuple[Lease, ...]:
        known = {lease.shard_id: lease for lease in leases if not lease.is_ended}
        if unknown := sorted(set(shards) - known.keys()):
            raise ControlRefused(
                f"application {self.application} has no unfinished lease of {', '.join(unknown)}; it has "
                f"{', '.join(sorted(known)[:5]) or 'none at all'}{' and more' if len(known) > 5 else ''}"
            )
        return tuple(lease for shard, lease in known.items() if not shards or shard in shards)


def _named(shards: Collection[str], scan: LeaseScan) -> tuple[str, ...]:
    """Returns full names unchanged, since a stream's pause may outlast its leases."""
    streams = streams_of(scan)
    return tuple(shard if stream_key_of(shard) else shard_named(shard, streams) for shard in shards)


def ends_at(text: str) -> Callable[[datetime], datetime]:
    """Parses when a pause ends: at a time with its zone, or after a duration. Returns a function from the present
    moment to the end. Raises ControlRefused.
    """
    try:
        lasts = parse_duration("until", text)
    except SettingsError:
        pass
    else:
        return lambda now: now + lasts
    at = parse_moment(text)
    if at is None:
        raise ControlRefused(
            f"{text!r} is neither a time with its zone, such as 2026-11-23T18:00:00Z, nor a duration, such as 2h"
        )
    return lambda _: at


def _by_the_store(store: ControlStore, clock: Clock) -> datetime:
    now = clock.now()
    return now - ahead_by(now, store.answered_at)


def _in_milliseconds(moment: datetime) -> datetime:
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


@dataclass(slots=True)
class ReleaseWatch:
    """Watches leases until their owners have released them."""

    ports: Ports
    settings: Settings
    check_stands: Callable[[], None]
    """Called by each look. Raises if there is no longer a reason to wait."""
    shards: frozenset[str] = frozenset()
    """The leases to wait for; empty means all."""
    settled_since: datetime | None = None
    """When the control was changed, by the steady clock. Ticks that read it before may still send workers for a while.
    None: do not wait for those.
    """
    _sightings: Mapping[str, Sighting] = field(default_factory=dict, init=False)

    def wait(self, timeout: timedelta, show: Callable[[Sequence[Lease]], None]) -> tuple[Lease, ...]:
        """Waits until all leases are released or the time is over, and returns those that are not released. Calls
        `show` whenever these change. Raises what LeaseTable and `check_stands` raise.
        """
        pause, until = self.ports.tasks.signal(), self.ports.clock.steady() + timeout
        shown: tuple[str, ...] | None = None
        while True:
            left = self.look()
            self.check_stands()
            keys = tuple(lease.lease_key for lease in left)
            if keys != shown:
                show(left)
                shown = keys
            if self.ports.clock.steady() >= until if left else self._is_settled:
                return left
            pause.wait(LOOK_EVERY)

    @property
    def _is_settled(self) -> bool:
        return self.settled_since is None or is_settled(self.settled_since, self.ports.clock.steady())

    def look(self) -> tuple[Lease, ...]:
        """Looks once. An owner counts as gone if neither ticks nor this object saw a write of it for failover_time."""
        scan, remembered = self.ports.table.scan(), self.ports.sightings.load()
        now = self.ports.clock.now()
        now -= ahead_by(now, scan.at)
        leases = [lease for lease in scan.leases if not self.shards or lease.shard_id in self.shards]
        self._sightings = observe({**remembered.sightings, **self._sightings}, leases, now)
        return unreleased(leases, self._sightings, remembered.dispatched, now, self.settings.failover_time)
