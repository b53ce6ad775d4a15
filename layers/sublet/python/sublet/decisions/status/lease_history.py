"""A lease's last ten observations: where it stood, and how far behind it was. From these come its status and its trend.

Burrow keeps such a ring of ten for each partition (core/internal/storage/inmemory.go), one for each time that a
consumer group stores its position. Here an observation is made by a command or page that watches, when it finds that an
owner has written to the lease; and by the owners themselves, which leave theirs in the lease's row
(`protocol/lag_history`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from sublet.decisions.manager.liveness import Sighting, has_moved
from sublet.decisions.manager.probe import Probe, ProbeResult
from sublet.decisions.manager.unread_shards import HELD_CAUGHT_UP_LATELY
from sublet.decisions.session.lag import FORGOTTEN_AFTER, LEAST, LENGTH, PACE
from sublet.protocol.checkpoint import AT_TIMESTAMP, TRIM_HORIZON
from sublet.protocol.lease import Lease, Position
from sublet.protocol.row_values import EPOCH

SECOND = timedelta(seconds=1)


class LagObservation(Struct, frozen=True):
    """`behind`: how long the first record after the position had waited. Zero: nothing waited. None: not known."""

    at: datetime
    position: Position
    behind: timedelta | None = None


History = tuple[LagObservation, ...]
"""Oldest first, at most LENGTH."""


def waiting_times(probes: Iterable[Probe]) -> Mapping[str, timedelta | None]:
    """Returns, by lease key, how long the first record has waited: zero if nothing waits, None if the shard's pages did
    not tell. An empty page that lags proves nothing.
    """
    return {probe.lease.lease_key: _waiting(probe) for probe in probes}


def _waiting(probe: Probe) -> timedelta | None:
    if probe.waiting is not None:
        return max(probe.waiting, LEAST)
    return timedelta(0) if probe.answer is ProbeResult.QUIET else None


def is_caught_up(lease: Lease, now: datetime, within: timedelta = HELD_CAUGHT_UP_LATELY) -> bool:
    """Whether its row says that the shard was read to its tip within this time."""
    return any(abs(now - at) < within for at in nothing_waited_at(lease))


def believed_for(lease: Lease, silent_after: timedelta) -> timedelta:
    """Returns for how long a row that says that nothing waits is believed. An owner that has been silent for longer
    than `silent_after` may be gone. A free lease was released by a worker that had read to the tip, unless that worker
    reported that a record has waited since, as when the handler fails.
    """
    if lease.actual_owner is not None:
        return min(silent_after, HELD_CAUGHT_UP_LATELY)
    since = None if lease.lag_report is None else lease.lag_report.waits_since
    is_waiting = since is not None and all(at <= since for at in nothing_waited_at(lease))
    return timedelta(0) if is_waiting else HELD_CAUGHT_UP_LATELY


def last_word(lease: Lease) -> datetime | None:
    """The newest moment that the row itself shows; None if it shows none, as a row that only a Java KCL has written."""
    reported = None if lease.lag_report is None else lease.lag_report.at
    return max((at for at in (lease.caught_up_at, lease.quiet_until, reported) if at is not None), default=None)


def shown_idle(lease: Lease, sightings: Mapping[str, Sighting], now: datetime) -> timedelta | None:
    """How long ago the lease was last written to, from what an owner of ours left in the row, or else from a sighting
    that is still valid. None if it is not known. (`liveness.idle_time` is for expiry: it is zero if nothing is known.)
    """
    is_ours = lease.actual_owner is None or lease.held_by is not None
    at = last_word(lease) if is_ours else None
    if at is None and lease.lease_key in sightings and not has_moved(lease, sightings):
        at = sightings[lease.lease_key].seen_at
    return None if at is None else max(now - at, timedelta(0))


def nothing_waited_at(lease: Lease) -> Sequence[datetime]:
    """Moments at which the shard held nothing after the checkpoint, according to its row."""
    reported = None if lease.lag_report is None else lease.lag_report.nothing_waited_at
    return [at for at in (lease.caught_up_at, lease.quiet_until, reported) if at is not None]


def was_caught_up_since(lease: Lease, at: datetime) -> bool:
    """Whether the row says that it was. A KCL may write nothing then, since it has nothing to checkpoint."""
    return any(seen > at for seen in nothing_waited_at(lease))


def again_since(lease: Lease) -> datetime | None:
    """If the lease was moved back: when the first record arrived that waits again, of those that its owners are known
    to have handled. Others may wait that arrived earlier.
    """
    begins = EPOCH if lease.checkpoint == TRIM_HORIZON else lease.position.start_at
    handled = [seen.arrived_at for seen in lease.lag_history if seen.arrived_at is not None]
    return None if begins is None else min((at for at in handled if at > begins), default=None)


def _behind(lease: Lease, waiting: timedelta | None, now: datetime, silent_after: timedelta) -> timedelta | None:
    """How long the next record has waited, as the shard's pages showed it; if they did not, as the owner reports it."""
    if waiting is not None:
        return waiting
    since = None if lease.lag_report is None else lease.lag_report.waits_since
    if since is not None and not was_caught_up_since(lease, since):
        return max(now - since, LEAST)
    return timedelta(0) if is_caught_up(lease, now, believed_for(lease, silent_after)) else None


def histories_after(
    before: Mapping[str, History],
    leases: Iterable[Lease],
    sightings: Mapping[str, Sighting],
    waiting: Mapping[str, timedelta | None],
    now: datetime,
    silent_after: timedelta = HELD_CAUGHT_UP_LATELY,
) -> Mapping[str, History]:
    """The histories by lease key, after a tick. Ended and deleted leases have none.

    sightings     those of the tick before, which show which leases have been written to since
    waiting       as `waiting_times` returns it, of the shards that this tick has asked about
    silent_after  as for `believed_for`
    """
    after: dict[str, History] = {}
    for lease in leases:
        key = lease.lease_key
        history = before.get(key, ())
        is_new = not history and lease.actual_owner is not None
        if is_watched(lease, sightings) or (is_new and not lease.is_ended):
            history = _with(history, lease, _behind(lease, waiting.get(key), now, silent_after), now)
        if history and not lease.is_ended:
            after[key] = history
    return after


def seen_by_owners(lease: Lease) -> tuple[History, Position]:
    """The last observations that owners of ours have left in the row, and the lease's own position among them. Here a
    position is the time at which its record arrived. There are no observations if another writer has moved the lease,
    since its position among them is then not known.
    """
    report, checkpoint = lease.lag_report, lease.checkpoint
    arrived_at = None if report is None else report.arrived_at
    if checkpoint.is_sequence_number and arrived_at is None:
        return (), lease.position
    is_handled_to = checkpoint.is_sequence_number or checkpoint == TRIM_HORIZON
    here = _arrival(arrived_at) if is_handled_to else lease.position
    history = tuple(LagObservation(seen.at, _arrival(seen.arrived_at), seen.lag) for seen in lease.lag_history)
    if report is not None and (not history or report.at - history[-1].at >= SECOND):
        history = (*history, LagObservation(report.at, here, report.lag))
    return tuple(seen for seen in history if history[-1].at - seen.at <= FORGOTTEN_AFTER)[-LENGTH:], here


def _arrival(arrived_at: datetime | None) -> Position:
    """A position for an arrival time; for None, one before all records."""
    return Position(AT_TIMESTAMP, arrived_at or EPOCH)


def is_watched(lease: Lease, sightings: Mapping[str, Sighting]) -> bool:
    """Whether there is something new to observe."""
    return not lease.is_ended and has_moved(lease, sightings)


def _with(history: History, lease: Lease, behind: timedelta | None, now: datetime) -> History:
    if history and abs(now - history[-1].at) < PACE:
        return history
    new = LagObservation(now, lease.position, behind)
    if history and behind == timedelta(0) == history[-1].behind and history[-1].position == new.position:
        return history  # an idle fleet writes nothing
    recent = [seen for seen in history if timedelta(0) < now - seen.at <= FORGOTTEN_AFTER]
    return (*recent, new)[-LENGTH:]
