"""Records that retention took before anybody had read them: told where it shows, as reading begins and between two pages."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from sublet.decisions.quiet import ARRIVALS_DIFFER_BY, reached_by
from sublet.decisions.read_position import (
    NOTHING_READ,
    IteratorType,
    Kept,
    ReadPosition,
    after_page,
    may_have_lost,
    shows_what_follows,
)
from sublet.errors import StreamError
from sublet.metric_names import Metric
from sublet.ports import PollRefusal, Ports, Signal
from sublet.protocol.lease import Lease
from sublet.protocol.records import Page, StreamRecord

ATTEMPTS = 5
BETWEEN_ATTEMPTS = timedelta(seconds=1)


@dataclass(slots=True)
class GapWatch:
    """One reading of a shard. `opened`: its lease as reading began."""

    ports: Ports
    opened: Lease
    stop: Signal
    kept: Kept = NOTHING_READ
    is_begun: bool = False

    def look_at(self, page: Page, polled_at: datetime, now: datetime) -> None:
        """Before its records are handled: once they are checkpointed, nobody can tell."""
        if not shows_what_follows(page):
            return
        first = page.records[0] if page.records else None
        if not self.is_begun:
            self.is_begun = True
            if may_have_lost(self.opened, first, now) and not self._begins_whole():
                self._tell("the checkpointed record", str(self.opened.checkpoint), first)
        elif (last := self.kept.in_doubt(polled_at)) is not None:
            is_there = self._is_whole(last, self.kept.unread_since)
            if is_there is None:
                return  # asked again with the next page
            if not is_there:
                self._tell("the record that was read last", last, first)
            else:
                self.kept = self.kept.with_proof(polled_at)
        self.kept = after_page(self.kept, page, polled_at)

    def _begins_whole(self) -> bool:
        """Of a shard that was opened at a moment, which does not bring the checkpointed record. No answer means that it is told:
        there may be no later page to ask at.
        """
        until = self.opened.quiet_until
        return until is not None and bool(self._is_whole(self.opened.checkpoint.sequence_number, until))

    def _is_whole(self, sequence_number: str, until: datetime | None) -> bool | None:
        """Whether nothing is lost behind this record: it is there, or what arrived since `until` is, before which nothing follows
        it. None: not known, since the service did not answer.
        """
        at = ReadPosition(IteratorType.AT_SEQUENCE_NUMBER, sequence_number)
        reader = self.ports.stream.reader(self.opened.shard_id, at)
        for attempt in range(ATTEMPTS):
            if attempt and self.stop.wait(BETWEEN_ATTEMPTS):
                break
            with suppress(StreamError):
                answer = reader.read(1)
                if isinstance(answer, PollRefusal):
                    continue
                if shows_what_follows(answer):
                    return any(record.sequence_number == sequence_number for record in answer.records)
                is_kept = _is_kept_since(until, answer)
                if is_kept is not None:
                    return is_kept
        return None

    def _tell(self, what: str, before: str, first: StreamRecord | None) -> None:
        read_on = {} if first is None else {"first_arrival": first.approximate_arrival_timestamp.isoformat()}
        self.ports.metrics.put(Metric.DATA_GAP, 1)
        self.ports.log.error(
            f"data gap: {what} is past retention, and so may be records after it; going on from the horizon",  # noqa: G004 -- one of two
            shard_id=self.opened.shard_id, checkpoint=before,
            first_sequence_number=first and first.sequence_number, **read_on,
        )  # fmt: skip


def _is_kept_since(until: datetime | None, page: Page) -> bool | None:
    """By an empty page behind the tip, read from a record on that is older than `until`, or from the horizon if that is gone. The
    walk passes what is kept: it begins no later than where it has come to, and no page is beyond the record that it began at.
    """
    reached = reached_by(page)
    if until is None or reached is None:
        return None
    if reached <= until:
        return True
    return False if reached > until + ARRIVALS_DIFFER_BY else None
