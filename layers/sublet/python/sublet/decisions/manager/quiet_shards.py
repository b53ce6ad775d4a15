"""Which free leases need no worker: nothing has come to their shards since they were read to the tip.

In catch_up mode each tick would otherwise send a worker to each of them, and most shards of most streams are quiet. So
the lease manager probes them before it dispatches. A lease is left out of the dispatch only on proof, and the proof
decides nothing else: where a worker opens the shard follows from the lease's row alone. A wrong answer can therefore
delay records until the next tick that probes, or at most for `quiet_visit_interval`, but cannot lose them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from sublet.decisions.manager.probe import Probe
from sublet.decisions.manager.unread_shards import UnreadShard, known_of, may_be_read
from sublet.decisions.session.quiet import begun, opened_at
from sublet.decisions.session.read_position import IteratorType, ReadPosition, read_position
from sublet.protocol.lease import Lease
from sublet.settings import Mode, Settings

ASKED_AT_MOST_EVERY = timedelta(seconds=1)
"""How often one process probes a shard, whose readers share five calls a second."""

ITERATOR_LASTS = timedelta(minutes=4)
"""How long an iterator is used again. Kinesis keeps it for five minutes."""


class LastProbe(NamedTuple):
    """What a process last found in a shard, at `at`. The next probe goes on from there while the lease has the same
    position.
    """

    probe: Probe
    at: datetime

    def can_continue(self, lease: Lease, from_row: Probe | None, now: datetime) -> bool:
        """Whether the lease's next probe uses this one's reader again. It starts over at `from_row` if this one has
        found records, since the next has to find them too, or if a worker has walked further meanwhile.
        """
        probe = self.probe
        if lease.position != probe.lease.position or abs(now - self.at) >= ITERATOR_LASTS:
            return False
        if probe.waiting is not None or probe.is_ended:
            return False
        row_walked_until = None if from_row is None else from_row.at.at
        reached = max((at for at in (probe.at.at, probe.walked.until) if at is not None), default=None)
        return row_walked_until is None or (reached is not None and reached >= row_walked_until)


def choose_asked(
    leases: Iterable[Lease],
    settled: Collection[str],
    waits_for: Collection[str],
    now: datetime,
    settings: Settings,
) -> tuple[Lease, ...]:
    """The leases whose shards to probe before the dispatch. To all others a worker is sent without a probe, if one is
    due.

    `settled`: lease keys that get no worker whatever their shards answer. `waits_for`: shards whose rows are
    unreadable.
    """
    if settings.mode is not Mode.CATCH_UP:
        return ()
    leases = tuple(leases)
    unfinished = {lease.shard_id for lease in leases if not lease.is_ended}.union(waits_for)
    return tuple(
        lease
        for lease in leases
        if _may_stay_alone(lease, now, settings.quiet_visit_interval)
        and lease.lease_key not in settled
        and may_be_read(lease, unfinished)
    )


def _may_stay_alone(lease: Lease, now: datetime, visited_every: timedelta) -> bool:
    """Whether a worker has read the shard to its tip lately and left nothing to finish unless a new record comes."""
    is_free = lease.actual_owner is None and not lease.is_ended
    was_visited = lease.caught_up_at is not None and abs(now - lease.caught_up_at) < visited_every
    return is_free and was_visited and not lease.crashes and lease.pending is None


def first_look(lease: Lease, unread: Mapping[str, UnreadShard]) -> Probe | None:
    """Where to open the shard, so that a quiet stretch is not walked again. None: the shard has ended.

    The probe includes the checkpointed record itself, if no reader has found the shard quiet after it: it may be an
    aggregate whose last user records are not handled yet.
    """
    position = read_position(lease)
    if position is None:
        return None
    until = lease.quiet_until
    if until is not None or not lease.checkpoint.is_sequence_number:
        known = known_of(lease, unread)
        found = None if known is None else known.quiet_until
        until = max((at for at in (until, found) if at is not None), default=None)
    at = position if until is None else opened_at(until, position)
    if at.type is IteratorType.AT_TIMESTAMP:
        at = ReadPosition(at.type, at=at.at)  # the stream is known to be the leases'
    return Probe(lease, at, walked=begun(at))


def needing_no_worker(asked: Mapping[str, Probe]) -> frozenset[str]:
    """The keys of those leases whose shards, by their answers, need no worker."""
    return frozenset(key for key, probe in asked.items() if probe.needs_no_worker)
