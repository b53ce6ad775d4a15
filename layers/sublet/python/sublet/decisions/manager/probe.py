"""A look into a shard, to learn whether records wait there.

There are three answers: records wait; nothing follows the checkpoint; or unknown, since an empty page that lags proves
nothing.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from sublet.decisions.session.quiet import MILLISECOND, NOTHING_WALKED, WalkedUntil
from sublet.decisions.session.read_position import ReadPosition, not_yet_handled
from sublet.protocol.aggregation import deaggregate
from sublet.protocol.lease import Lease
from sublet.protocol.records import Page, StreamRecord


class ProbeResult(StrEnum):
    WAITS = "waits"
    QUIET = "quiet"
    UNKNOWN = "unknown"


class Probe(Struct, frozen=True):
    """A look into a shard, as far as it has come.

    at        where it began
    is_held   by a live owner
    waiting   how long the first record after the checkpoint has been there; None if no record has come yet
    is_quiet  nothing follows the checkpoint
    is_at_tip nothing has come, and its last page was at the tip
    is_ended  the shard has ended, and its lease has to be ended too
    walked    what its empty pages have proved
    """

    lease: Lease
    at: ReadPosition
    is_held: bool = False
    waiting: timedelta | None = None
    is_quiet: bool = False
    is_at_tip: bool = False
    is_ended: bool = False
    walked: WalkedUntil = NOTHING_WALKED

    @property
    def answer(self) -> ProbeResult:
        if self.waiting is not None:
            return ProbeResult.WAITS
        return ProbeResult.QUIET if self.is_quiet else ProbeResult.UNKNOWN

    @property
    def needs_no_worker(self) -> bool:
        """Whether a worker would find nothing to do in this shard, not even its end.

        A page at the tip is enough, though records from before the checkpoint are in it, and though more may follow at
        once: those come in the next look, a tick later.
        """
        return self.waiting is None and self.is_at_tip and not self.is_ended

    def after(self, page: Page, now: datetime) -> Probe:
        """Adds the shard's next page, as of now."""
        new = next((record for record in page.records if _is_unhandled(record, self.lease)), None)
        if new is not None:
            age = now - new.approximate_arrival_timestamp
            return replace(self, waiting=max(age, page.millis_behind_latest * MILLISECOND, timedelta(0)))
        is_at_tip = page.millis_behind_latest == 0
        return replace(
            self,
            is_quiet=page.is_shard_end or (is_at_tip and not page.records),
            is_at_tip=is_at_tip,
            is_ended=page.is_shard_end,
            walked=self.walked.after(page),
        )

    def again(self, lease: Lease) -> Probe:
        """Returns the probe for the next look, which goes on where this one ended. The lease is at the same
        position.
        """
        return replace(self, lease=lease, waiting=None, is_quiet=False, is_at_tip=False, is_ended=False)

    @property
    def quiet_until(self) -> datetime | None:
        """Where the next probe should begin, if that saves anything."""
        quiet = self.walked.quiet(self.lease.position)
        return None if quiet is None else quiet.until


def _is_unhandled(record: StreamRecord, lease: Lease) -> bool:
    """The checkpointed record itself may be an aggregate whose last user records are not handled yet, unless a reader
    has found the shard quiet after exactly this checkpoint.
    """
    checkpoint = lease.checkpoint
    if not checkpoint.is_sequence_number:
        return True
    number, handled = int(record.sequence_number), int(checkpoint.sequence_number)
    if number != handled or lease.quiet_until is not None:
        return number > handled
    return bool(not_yet_handled(deaggregate((record,), None).user_records, checkpoint))
