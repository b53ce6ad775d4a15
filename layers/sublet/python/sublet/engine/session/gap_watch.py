"""Notices records of a shard that were trimmed before they were read, and reports them as a data gap."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from sublet.decisions.session.quiet import ARRIVALS_DIFFER_BY, reached_by
from sublet.decisions.session.read_position import (
    NOTHING_READ,
    IteratorType,
    ReadPosition,
    RetentionEvidence,
    after_page,
    may_have_lost,
    shows_what_follows,
)
from sublet.errors import CallFailed
from sublet.metric_names import Metric
from sublet.ports import Ports, Refusal, Signal
from sublet.protocol.lease import Lease
from sublet.protocol.records import Page, StreamRecord

ATTEMPTS = 5
BETWEEN_ATTEMPTS = timedelta(seconds=1)


@dataclass(slots=True)
class GapWatch:
    """Notices if records were trimmed before they were read. One for each time that a shard is opened. `opened`: the
    lease then.
    """

    ports: Ports
    opened: Lease
    stop: Signal
    kept: RetentionEvidence = NOTHING_READ
    is_begun: bool = False

    def look_at(self, page: Page, polled_at: datetime, now: datetime) -> None:
        """Call this before the page's records are handled: once they are checkpointed, a gap no longer shows."""
        if not shows_what_follows(page):
            return
        first = page.records[0] if page.records else None
        if not self.is_begun:
            self.is_begun = True
            if may_have_lost(self.opened, first, now) and not self._begins_whole():
                self._report_gap("the checkpointed record", str(self.opened.checkpoint), first)
        elif (last := self.kept.in_doubt(polled_at)) is not None:
            is_there = self._is_whole(last, self.kept.unread_since)
            if is_there is None:
                return  # the next page asks again
            if not is_there:
                self._report_gap("the record that was read last", last, first)
            else:
                self.kept = self.kept.with_proof(polled_at)
        self.kept = after_page(self.kept, page, polled_at)

    def _begins_whole(self) -> bool:
        """Whether nothing was lost at the beginning. A shard opened at a moment does not return the checkpointed
        record, so this asks for it. If the service does not answer, a gap is reported, because there may be no later
        page.
        """
        checkpoint, until = self.opened.checkpoint, self.opened.quiet_until
        return until is not None and bool(self._is_whole(checkpoint.sequence_number, until))

    def _is_whole(self, sequence_number: str, until: datetime | None) -> bool | None:
        """Whether nothing after this record is lost: the record is still there, or everything since `until` is, and
        nothing arrived between the two. None if the service did not answer.
        """
        at = ReadPosition(IteratorType.AT_SEQUENCE_NUMBER, sequence_number)
        stream = self.ports.stream
        reader = stream.reader(self.opened.shard_id, at)
        for attempt in range(ATTEMPTS):
            if attempt and self.stop.wait(BETWEEN_ATTEMPTS):
                break
            with suppress(CallFailed):
                answer = reader.read(1)
                if isinstance(answer, Refusal):
                    continue
                if shows_what_follows(answer):
                    return any(record.sequence_number == sequence_number for record in answer.records)
                is_kept = _is_kept_since(until, answer)
                if is_kept is not None:
                    return is_kept
        return None

    def _report_gap(self, what: str, before: str, first: StreamRecord | None) -> None:
        read_on = {} if first is None else {"first_arrival": first.approximate_arrival_timestamp.isoformat()}
        metrics, log = self.ports.metrics, self.ports.log
        metrics.put(Metric.DATA_GAP, 1, shard_id=self.opened.shard_id)
        log.error(
            f"data gap: {what} is past retention, and so may be records after it; going on from the horizon",  # noqa: G004 -- one of two
            shard_id=self.opened.shard_id,
            checkpoint=before,
            first_sequence_number=first and first.sequence_number,
            **read_on,
        )


def _is_kept_since(until: datetime | None, page: Page) -> bool | None:
    """Whether everything since `until` is still kept, judged by an empty page behind the tip. None if the page does not
    show it.

    The page was read from a record older than `until`, or from the horizon if that record is gone. A walk only passes
    what is kept, and begins no later than the time that its page has reached.
    """
    reached = reached_by(page)
    if until is None or reached is None:
        return None
    if reached <= until:
        return True
    return False if reached > until + ARRIVALS_DIFFER_BY else None
