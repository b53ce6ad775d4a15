"""Records that retention took before anybody had read them: told where it shows, as reading begins and between two pages."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

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
            if may_have_lost(self.opened, first, now):
                self._tell("the checkpointed record", str(self.opened.checkpoint), first)
        elif (last := self.kept.in_doubt(polled_at)) is not None:
            is_there = self._is_there(last)
            if is_there is None:
                return  # asked again with the next page
            if not is_there:
                self._tell("the record that was read last", last, first)
            else:
                self.kept = self.kept.with_proof(polled_at)
        self.kept = after_page(self.kept, page, polled_at)

    def _is_there(self, sequence_number: str) -> bool | None:
        """None: not known, since the service did not answer."""
        at = ReadPosition(IteratorType.AT_SEQUENCE_NUMBER, sequence_number)
        for attempt in range(ATTEMPTS):
            if attempt and self.stop.wait(BETWEEN_ATTEMPTS):
                break
            with suppress(StreamError):
                answer = self.ports.stream.reader(self.opened.shard_id, at).read(1)
                if not isinstance(answer, PollRefusal) and shows_what_follows(answer):
                    return any(record.sequence_number == sequence_number for record in answer.records)
        return None

    def _tell(self, what: str, before: str, first: StreamRecord | None) -> None:
        read_on = {} if first is None else {"first_arrival": first.approximate_arrival_timestamp.isoformat()}
        self.ports.metrics.put(Metric.DATA_GAP, 1)
        self.ports.log.error(
            f"data gap: {what} is past retention, and so may be records after it; going on from the horizon",  # noqa: G004 -- one of two
            shard_id=self.opened.shard_id, checkpoint=before,
            first_sequence_number=first and first.sequence_number, **read_on,
        )  # fmt: skip
