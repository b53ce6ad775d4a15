"""Acquiring a worker item's leases: each exactly as the lease manager saw it, and what an earlier attempt at the item held as it
stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sublet.decisions.announcing import asked_for
from sublet.decisions.choose_leases import ClaimReason
from sublet.decisions.crash_caution import Caution, caution
from sublet.decisions.dispatching import may_steal_as_it_stands
from sublet.decisions.packing import WorkerItem
from sublet.decisions.time_and_chance import Instant
from sublet.decisions.window import Outcome
from sublet.engine.lease.held import instant
from sublet.engine.lease.steps import acquire_lease, is_held_by
from sublet.errors import TransientError
from sublet.ports import Ports, Signal
from sublet.protocol.lease import Lease, LeaseFence, MalformedRow
from sublet.settings import Settings

ASKED_EVERY = timedelta(milliseconds=250)
"""A lease that was given back is unowned until we see it."""

ACQUIRED_AGAIN_AFTER = tuple(timedelta(seconds=seconds) for seconds in (1, 2, 4, 8, 16))
"""The pauses while the lease table is out of reach. After them the next tick dispatches the lease again."""


@dataclass(slots=True)
class LeaseAcquirer:
    """For one window. `holder`: item and invocation, as it stands on the rows. `stopping`: nothing is waited for any more."""

    ports: Ports
    settings: Settings
    item: WorkerItem
    holder: str
    deadline: datetime
    stopping: Signal
    asks: bool = False
    """What is to be stolen is waited for first: its owner may see that it is asked for, and give it back."""
    _given: set[str] = field(default_factory=set)
    """Claims that were given back for us: nothing of them is still under way with their owner."""
    _from_the_living: set[str] = field(default_factory=set)
    """Claims that were stolen as they stood, from an owner who had heartbeat since."""

    def acquire(self, seen: LeaseFence, why: ClaimReason) -> tuple[Lease | MalformedRow | None, Instant]:
        """The row, and when it was asked for. A table that is out of reach is asked again for half a minute: what is free would
        wait for the next tick otherwise, and what was kept for this window for its own expiry.
        """
        if self.asks and why is ClaimReason.STEAL:
            self._ask(seen)
        pauses = iter(ACQUIRED_AGAIN_AFTER)
        while True:
            since = instant(self.ports.clock)
            try:
                return self._acquire(seen, why), since
            except TransientError as unavailable:
                self.ports.log.warning(
                    "lease table unavailable", lease_key=seen.lease_key, problem=str(unavailable)
                )
                pause = next(pauses, None)
                if pause is None or since.steady + pause >= self.deadline or self.stopping.wait(pause):
                    raise

    def _ask(self, seen: LeaseFence) -> None:
        """Wait for its owner to give it back, which may then be taken as it stands."""
        clock = self.ports.clock
        until = clock.steady() + asked_for(self.settings)
        while clock.steady() < until and not self.stopping.wait(ASKED_EVERY):
            try:
                row = self.ports.table.get(seen.lease_key)
            except TransientError:
                continue
            if not isinstance(row, Lease) or row.lease_owner != seen.lease_owner:
                break

    def _acquire(self, seen: LeaseFence, why: ClaimReason) -> Lease | MalformedRow | None:
        """The row, ours if the acquire succeeded. What an earlier attempt at this very item held is taken over as it stands; so
        is what is to be stolen, if its owner has only heartbeat it since, or given it back.
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
            self.ports.table,
            seen,
            self.item.worker_id,
            self.holder,
            after_crash=why is ClaimReason.EXPIRED,
            may_take_over=self.is_of_this_item,
        )

    def _may_still_steal(self, seen: LeaseFence, row: Lease) -> bool:
        now, failover_time = self.ports.clock.now(), self.settings.failover_time
        return may_steal_as_it_stands(seen, row, self.item.dispatched_at, now, failover_time)

    def spared(self, taken: Lease, claim: LeaseFence) -> Outcome | None:
        """Taken over from an attempt at this item that crashed, as others before it: why the lease is not tried once more now."""
        if taken.lease_counter == claim.lease_counter + 1 or taken.lease_key in self._from_the_living:
            return None  # as it was claimed: the lease manager knew
        with_care = caution(taken)
        if with_care >= Caution.PAUSES:
            return Outcome.LEFT_ALONE
        return Outcome.TRIED_APART if with_care >= Caution.ALONE and len(self.item.claims) > 1 else None

    def why(self, taken: Lease, claimed: ClaimReason) -> ClaimReason:
        return ClaimReason.FREE if taken.lease_key in self._given else claimed

    def is_ours(self, lease: Lease) -> bool:
        return is_held_by(lease, self.item.worker_id, self.holder)

    def is_of_this_item(self, lease: Lease) -> bool:
        """The worker id belongs to it: a Java worker that takes a lease from us leaves our holder on the row."""
        held_by_item = (lease.held_by or "").startswith(f"{self.item.item_id}/")
        return held_by_item and lease.lease_owner == self.item.worker_id
