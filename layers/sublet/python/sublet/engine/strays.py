"""Aggregates out of their shard's hash key range: asking the stream, when one turns up, whether it may be dropped."""

from __future__ import annotations

from datetime import datetime, timedelta

from sublet.decisions.out_of_range import Kept, ask_again_after, why_kept
from sublet.errors import StreamError
from sublet.ports import Ports
from sublet.protocol.records import StreamRecord
from sublet.protocol.stream_info import Placement

FORGET_AFTER = timedelta(minutes=10)
"""Without a question, after which the pauses between them begin anew."""


WAITED_FOR = timedelta(seconds=2)
"""Strays come within seconds after a reshard. What is kept for want of an answer is handled twice, and out of order."""


class Strays:
    """Of one process. Safe for threads: the lock guards all of its fields."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._lock = ports.tasks.lock()
        self._known = Placement()
        self._pause: timedelta | None = None
        self._asked_at: datetime | None = None
        self._told: Kept | None = None

    def note_auto(self, seen_at: datetime | None) -> None:
        """What the lease manager remembers: when a description last said AUTO."""
        with self._lock:
            self._known = self._known.with_auto_seen(seen_at)

    def may_drop(self, record: StreamRecord) -> bool:
        """Whether an aggregate that is out of range was put into the wrong shard, and is sent again."""
        arrived = record.approximate_arrival_timestamp
        with self._lock:
            why = why_kept(arrived, self._known)
            while why is Kept.NOT_DESCRIBED and self._may_ask():
                self._ask()
                why = why_kept(arrived, self._known)
            if why is not None and why is not self._told:
                self._ports.log.warning(
                    "aggregates out of their shard's hash key range are kept",
                    why=why.value,
                    sequence_number=record.sequence_number,
                )
            self._told = why or self._told
            return why is None

    def _may_ask(self) -> bool:
        """Wait for a question that is due soon: Kinesis tells its time in whole seconds, so the answer about a record may seem
        older than the record.
        """
        now = self._ports.clock.steady()
        if self._asked_at is not None and now - self._asked_at > FORGET_AFTER:
            self._pause = None
        if self._asked_at is None or self._pause is None:
            return True
        due_in = self._asked_at + self._pause - now
        if due_in > WAITED_FOR:
            return False
        if due_in > timedelta(0):
            self._ports.tasks.signal().wait(due_in)
        return True

    def _ask(self) -> None:
        """A refusal is an answer too: nothing is known, and nothing is dropped."""
        self._pause, self._asked_at = ask_again_after(self._pause), self._ports.clock.steady()
        try:
            self._known = self._known.with_description(self._ports.stream.describe())
        except StreamError as problem:
            self._ports.log.warning("it is not known who places the stream's records", problem=str(problem))
