"""Puts an iterable of records in the caller's thread. For a Spark task, which has nothing else to do meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from sublet.decisions.putting.outbox import ProducerRules, QueuedRecord
from sublet.decisions.putting.placing import RecordPlacing
from sublet.decisions.putting.producing import Produced, ProducerState, PutCall
from sublet.decisions.time_and_chance import Chance
from sublet.errors import SubletError
from sublet.ports import Clock, RecordWriter
from sublet.protocol.records import NewRecord, PutRefused
from sublet.protocol.stream_info import PutRecord

AT_ONCE = 16 * 2**20
"""How many bytes of records are added at a time: more than one call takes, so that calls are full."""

LISTED_AFTER = timedelta(milliseconds=200)
"""The pause after a listing of the shards that did not help."""

Sleep = Callable[[timedelta], object]


def put_all(
    records: Iterable[NewRecord],
    rules: ProducerRules,
    writer: RecordWriter,
    place: Callable[[bool], RecordPlacing],
    clock: Clock,
    sleep: Sleep,
    chance: Chance,
) -> Produced:
    """Returns once Kinesis has taken all records. If one is given up, raises the error that it was given up for.

    place  returns who places records; its argument says whether records have landed in other shards than predicted
    """
    putting = _BlockingPut(ProducerState(rules, chance), writer, place, clock, sleep)
    for some in _portions(records, clock.steady()):
        putting.put(some)
    return putting.producing.produced


def _portions(records: Iterable[NewRecord], began: datetime) -> Iterator[list[QueuedRecord]]:
    """The records are dated when they are put: the rows of a portion may take minutes to gather."""
    portion: list[QueuedRecord] = []
    size = 0
    for record in records:
        queued = QueuedRecord.of(*record, arrived_at=began, epoch=0, ticket=None)
        if portion and size + queued.whole_size > AT_ONCE:
            yield portion
            portion, size = [], 0
        portion.append(queued)
        size += queued.whole_size
    if portion:
        yield portion


class _BlockingPut:
    def __init__(
        self,
        producing: ProducerState,
        writer: RecordWriter,
        place: Callable[[bool], RecordPlacing],
        clock: Clock,
        sleep: Sleep,
    ) -> None:
        self.producing = producing
        self._writer, self._place, self._clock, self._sleep = writer, place, clock, sleep
        self._has_listed = False

    def put(self, records: list[QueuedRecord]) -> None:
        now = self._clock.steady()
        for record in records:
            record.arrived_at, record.epoch = now, self.producing.epoch
        self.producing.add(records, now)
        epoch = self.producing.flush(now)
        while not self.producing.is_settled(epoch):
            plan = self.producing.plan(self._clock.steady())
            if plan.wants_placing:
                self._list_shards()
            for call in plan.calls:
                self.producing.settle(call, self._answers(call), self._clock.steady())
            self._raise_or_settle()
            if not plan.calls and not plan.wants_placing and plan.look_again_at is not None:
                self._sleep(max(plan.look_again_at - self._clock.steady(), timedelta(0)))

    def _answers(self, call: PutCall) -> Sequence[PutRecord | PutRefused] | Exception:
        try:
            return self._writer.put([entry.stream_record() for entry in call.entries])
        except SubletError as failure:
            return failure

    def _list_shards(self) -> None:
        again, self._has_listed = self._has_listed, True
        if again:
            self._sleep(LISTED_AFTER)
        try:
            found = self._place(again)
        except SubletError as why:
            self.producing.placing_failed(why)
        else:
            self.producing.place(found, self._clock.steady())

    def _raise_or_settle(self) -> None:
        settled = self.producing.take_settled()
        for some in settled:
            if isinstance(some.outcome, Exception):
                raise some.outcome
        self.producing.told(settled)
