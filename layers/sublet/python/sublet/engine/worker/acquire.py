"""Acquires the leases of a worker item: its claims as the lease manager saw them, and what a crashed attempt at the
item held.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sublet.decisions.manager.choose_leases import ClaimReason
from sublet.decisions.manager.dispatching import may_steal_as_it_stands
from sublet.decisions.manager.joins_and_drains import asked_for
from sublet.decisions.manager.packing import WorkerItem
from sublet.decisions.patience import may_pass
from sublet.decisions.session.crash_caution import CrashCaution, caution
from sublet.decisions.session.window import SessionOutcome
from sublet.decisions.time_and_chance import Instant
from sublet.engine.lease.held import instant
from sublet.engine.lease.steps import acquire_lease, is_held_by
from sublet.errors import CallFailed
from sublet.ports import Ports, Signal
from sublet.protocol.lease import Lease, LeaseFence, MalformedRow
from sublet.settings import Settings

ASKED_EVERY = timedelta(milliseconds=250)
"""How often to check whether the owner has released a lease. Until we see that, no worker owns it."""

ACQUIRED_AGAIN_AFTER = tuple(timedelta(seconds=seconds) for seconds in (1, 2, 4, 8, 16))
"""The pauses between attempts while the lease table is out of reach. After the last one the lease is left to the next
tick.
"""


class LeaseAcquirer:
    """Acquires the leases of one window.

    holder    item and invocation, as the rows name it
    stopping  ends every wait
    asks      before it steals a lease, it gives the owner time to see the request and release the lease
    """

    def __init__(
        self,
        ports: Ports,
        settings: Settings,
        item: WorkerItem,
        holder: str,
        deadline: datetime,
        stopping: Signal,
        *,
        asks: bool,
    ) -> None:
        self._table, self._clock, self._log = ports.table, ports.clock, ports.log
        self._settings = settings
        self._item = item
        self._holder = holder
        self._deadline = deadline
        self._stopping = stopping
        self._asks = asks
        self._given: set[str] = set()
        """Claims that their owners released for us: no handler call of theirs is still running."""
        self._from_the_living: set[str] = set()
        """Claims that were stolen from an owner that had written another heartbeat since the tick."""

    def acquire(self, seen: LeaseFence, why: ClaimReason) -> tuple[Lease | MalformedRow | None, Instant]:
        """The row, and when the request for it was sent. While the table is out of reach or refuses, this tries again
        for half a minute. Otherwise a free lease would wait for the next tick, and a lease kept for this window until
        it expires.
        """
        if self._asks and why is ClaimReason.STEAL:
            self._ask(seen)
        pauses = iter(ACQUIRED_AGAIN_AFTER)
        while True:
            since = instant(self._clock)
            try:
                return self._acquire(seen, why), since
            except CallFailed as unavailable:
                if not may_pass(unavailable):
                    raise
                self._log.warning("lease table unavailable", lease_key=seen.lease_key, problem=str(unavailable))
                pause = next(pauses, None)
                if pause is None or since.steady + pause >= self._deadline or self._stopping.wait(pause):
                    raise

    def _ask(self, seen: LeaseFence) -> None:
        """Wait for the owner to release the lease."""
        until = self._clock.steady() + asked_for(self._settings)
        while self._clock.steady() < until and not self._stopping.wait(ASKED_EVERY):
            try:
                row = self._table.get(seen.lease_key)
            except CallFailed:
                continue
            if not isinstance(row, Lease) or row.lease_owner != seen.lease_owner:
                break

    def _acquire(self, seen: LeaseFence, why: ClaimReason) -> Lease | MalformedRow | None:
        """The row, ours if the acquire succeeded. A lease that an earlier attempt at this item held is taken over in
        its present state. So is a lease to be stolen, if its owner has only written heartbeats since, or has released
        it.
        """
        row = self._acquire_as(seen, why)
        if why is not ClaimReason.STEAL or not isinstance(row, Lease) or self.is_ours(row):
            return row
        if not self._may_still_steal(seen, row):
            return row
        self._from_the_living.add(seen.lease_key)
        if row.lease_owner is None:
            self._given.add(seen.lease_key)
        return self._acquire_as(row.fence, why)

    def _acquire_as(self, seen: LeaseFence, why: ClaimReason) -> Lease | MalformedRow | None:
        return acquire_lease(
            self._table,
            seen,
            self._item.worker_id,
            self._holder,
            after_crash=why is ClaimReason.EXPIRED,
            may_take_over=self.is_of_this_item,
        )

    def _may_still_steal(self, seen: LeaseFence, row: Lease) -> bool:
        now, failover_time = self._clock.now(), self._settings.failover_time
        return may_steal_as_it_stands(seen, row, self._item.dispatched_at, now, failover_time)

    def why_not_tried(self, taken: Lease, claim: LeaseFence) -> SessionOutcome | None:
        """Why a lease that was taken over after several crashes is not tried now; None if it is."""
        if taken.lease_counter == claim.lease_counter + 1 or taken.lease_key in self._from_the_living:
            return None  # the lease is as it was claimed, so the lease manager has taken its crashes into account
        with_care = caution(taken)
        if with_care >= CrashCaution.PAUSES:
            return SessionOutcome.LEFT_ALONE
        return SessionOutcome.TRIED_APART if with_care >= CrashCaution.ALONE and len(self._item.claims) > 1 else None

    def why(self, taken: Lease, claimed: ClaimReason) -> ClaimReason:
        return ClaimReason.FREE if taken.lease_key in self._given else claimed

    def is_ours(self, lease: Lease) -> bool:
        return is_held_by(lease, self._item.worker_id, self._holder)

    def is_of_this_item(self, lease: Lease) -> bool:
        """Compares the worker id too: a Java worker that takes a lease from us leaves our holder on the row."""
        held_by_item = (lease.held_by or "").startswith(f"{self._item.item_id}/")
        return held_by_item and lease.lease_owner == self._item.worker_id
