"""The lag report that a keeper adds to writes it makes anyway: lag, arrival time, and rates if batches are counted."""

from __future__ import annotations

from datetime import datetime

from sublet.decisions.session.lag import RATES_OVER, ThroughputRates, seen_beside
from sublet.ports import Clock
from sublet.protocol.checkpoint import AT_TIMESTAMP, Checkpoint
from sublet.protocol.lag_history import LagSeen
from sublet.protocol.lag_report import LagReport
from sublet.protocol.lease import Lease
from sublet.protocol.lease_attributes import whole_milliseconds
from sublet.spark.plan.committed import checkpoint_of
from sublet.spark.plan.lag import ShardLook, is_end_of, lag_then, nothing_waited_at


class LeaseLag:
    """The lag of one held lease. The keeper's thread notes looks; other threads read them for writes while it waits."""

    def __init__(self, lease: Lease, clock: Clock) -> None:
        self._clock = clock
        self._look: ShardLook | None = None
        self._nothing_at: datetime | None = None
        """When nothing waited where the last look begins, according to the look before it."""
        self._is_added = False
        """True if the rates include the batch of the last look."""
        self._reported: Checkpoint = AT_TIMESTAMP
        self._seen = lease.lag_history
        self._rates = ThroughputRates.going_on_from(lease.lag_report, clock.now())
        self._bytes = self._records = 0

    def has_looked(self, look: ShardLook) -> None:
        """Called when the driver has planned what comes after the look."""
        begins_at = checkpoint_of(look.begin.position)
        if begins_at is not None:
            self._add_if_handled(begins_at)
        before = self._look
        self._nothing_at = None if before is None else nothing_waited_at(before, look.begin.position)
        self._look, self._is_added = look, False

    def report(self, checkpoint: Checkpoint) -> tuple[LagReport, tuple[LagSeen, ...]] | None:
        """Returns the report for a row with this checkpoint, and the last reports. None if nothing is known of it, or
        if the checkpoint was moved back.
        """
        look, now = self._look, self._clock.now()
        if look is None or checkpoint < self._reported:
            return None
        then = lag_then(checkpoint, look, now, self._nothing_at)
        if then is None:
            return None
        self._reported = checkpoint
        self._add_if_handled(checkpoint)
        is_counted = look.found.bytes is not None
        self._rates = (
            self._rates.after(self._bytes, self._records, now, RATES_OVER) if is_counted else ThroughputRates(now)
        )
        said = self._rates.reported(whole_milliseconds(then.at), then.lag, then.arrived_at)
        self._seen = seen_beside(self._seen, said, checkpoint)
        return said, self._seen

    def _add_if_handled(self, checkpoint: Checkpoint) -> None:
        if self._look is not None and not self._is_added and is_end_of(self._look, checkpoint):
            self._is_added = True
            self._bytes += self._look.found.bytes or 0
            self._records += self._look.found.rows or 0
