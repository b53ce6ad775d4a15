"""The records that were put since a producer's loop last looked."""

from __future__ import annotations

from datetime import datetime

from sublet.decisions.putting.outbox import RECORDS_PER_CALL, ProducerRules, QueuedRecord
from sublet.ports import Clock


class ArrivalCounter:
    """Counts records as they are put, to decide when to wake the loop. Called with the loop's lock. Reads the clock
    only for the first record: the others count as put at the same moment.
    """

    def __init__(self, rules: ProducerRules, clock: Clock) -> None:
        self._clock = clock
        self._may_wait = rules.record_max_buffered_time
        self._enough = min(rules.aggregation_max_size, rules.max_buffered_bytes // 4)
        self._records: list[QueuedRecord] = []
        self._bytes = 0
        self.since = clock.steady()
        """When the first of them arrived."""

    def add(self, record: QueuedRecord, size: int, looks_at: datetime | None) -> bool:
        """Counts a record. True if the loop has to be woken for it. `looks_at`: when the loop looks anyway; None: not
        known.
        """
        records = self._records
        before, self._bytes = self._bytes, self._bytes + size
        if records:
            record.arrived_at = self.since
            records.append(record)
            return len(records) % RECORDS_PER_CALL == 1 or before < self._enough <= self._bytes
        self.since = record.arrived_at = self._clock.steady()
        records.append(record)
        return looks_at is None or looks_at > self.since + self._may_wait or size >= self._enough

    def take(self) -> list[QueuedRecord]:
        taken, self._records, self._bytes = self._records, [], 0
        return taken
