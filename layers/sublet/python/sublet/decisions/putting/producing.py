"""What a producer sends next, and what Kinesis' answers mean.

It predicts each user record's shard from a listing, as the KPL does, and an outbox for each shard packs its records
into aggregates. Kinesis may answer that an aggregate is in another shard than predicted. If that shard does not cover
all of its records, every KCL consumer drops the aggregate, so its records are sent again by a new listing. Plain
records are never dropped. A stream that was deleted and created again has shards of the same ids with other ranges;
sequence numbers show it.

Nothing here reads a clock or waits: `ProducerState` is changed in place, under the caller's lock.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import NamedTuple

from sublet.decisions.patience import may_pass
from sublet.decisions.putting.given_up_errors import (
    KEYLESS_REFUSED,
    NO_LISTING,
    NOT_LISTED,
    refusal_of,
    refused_alone,
    refused_for_good,
    timed_out,
)
from sublet.decisions.putting.outbox import CallRoom, Outbox, OutboxEntry, ProducerRules, QueuedRecord, SendReason
from sublet.decisions.putting.placing import RecordPlacing
from sublet.decisions.time_and_chance import Chance
from sublet.errors import RecordRefused, RecordTimedOut, TransientError
from sublet.protocol.records import PutRefused
from sublet.protocol.shard_map import ShardMap
from sublet.protocol.stream_info import PutRecord

FIRST_PAUSE = timedelta(milliseconds=50)
LONGEST_PAUSE = timedelta(seconds=2)
"""The pause after a refusal begins with the first and doubles up to the longest."""


LISTING_LAGS = timedelta(seconds=2)
"""If listings contradict a record's sequence number for longer, sequence numbers do not tell streams apart here."""


class PutCall(NamedTuple):
    """One call of PutRecords, and why it is made now."""

    entries: list[OutboxEntry]
    why: SendReason


class SettledRecords(NamedTuple):
    """The outcome of some user records: where they are, or why they were given up."""

    user_records: Sequence[QueuedRecord]
    outcome: PutRecord | Exception


class SendPlan(NamedTuple):
    """What to do now. `look_again_at`: when to ask for the next plan at the latest; None: only when something has
    happened.
    """

    calls: list[PutCall]
    look_again_at: datetime | None
    wants_placing: bool


@dataclass(frozen=True, slots=True)
class Produced:
    """What a producer has done so far.

    user_records, stream_records  how many are known to be in the stream
    aggregated   how many of the user records are there in aggregates
    calls        how often PutRecords was called
    retried      stream records that were put again after a refusal
    sent_again   user records whose aggregate a reshard had made useless
    given_up     user records that were given up
    """

    user_records: int = 0
    stream_records: int = 0
    aggregated: int = 0
    calls: int = 0
    retried: int = 0
    sent_again: int = 0
    given_up: int = 0


class _MisplacedAggregate(NamedTuple):
    """An aggregate in another shard than predicted."""

    entry: OutboxEntry
    landed: PutRecord
    since: datetime


class ProducerState:
    """A producer's records until the program knows their outcome."""

    def __init__(self, rules: ProducerRules, chance: Chance) -> None:
        self._rules = rules
        self._chance = chance
        self._placing: RecordPlacing | None = None
        self._wants_placing = True
        self._unplaced: list[QueuedRecord] = []
        self._unplaced_since: datetime | None = None
        """When the first of them was added: no listing was wanted for them before."""
        self._listing_failure: Exception | None = None
        self._outboxes: dict[str, Outbox] = {}
        self._in_flight: dict[int, OutboxEntry] = {}
        self._calls_in_flight = 0
        self._doubtful: list[_MisplacedAggregate] = []
        self._flushed_at: datetime | None = None
        self._unsettled: Counter[int] = Counter()
        self._settled: list[SettledRecords] = []
        self._counts: Counter[str] = Counter()
        self._divided: list[PutCall] = []
        self._births_tell = True
        self._has_worked = False
        """Whether Kinesis has taken a record."""
        self.epoch = 0

    @property
    def produced(self) -> Produced:
        return Produced(**self._counts)

    def add(self, records: Sequence[QueuedRecord], now: datetime) -> None:
        """Add user records, in the order in which they were put."""
        self._unsettled.update(record.epoch for record in records)
        self._sort_in(records, now)

    def flush(self, now: datetime) -> int:
        """Let none of the records added so far wait for others. Returns the epoch that ends here: see `is_settled`."""
        self._flushed_at = now
        self._unsettled = +self._unsettled
        self.epoch += 1
        return self.epoch - 1

    def is_settled(self, epoch: int) -> bool:
        """Whether the program knows the outcome of every record of this epoch and of the epochs before."""
        return not any(count for of, count in self._unsettled.items() if of <= epoch)

    def place(self, placing: RecordPlacing, now: datetime, asked_at: datetime | None = None) -> None:
        """Use a new listing: sort the waiting records into outboxes, and judge the aggregates that had landed
        elsewhere. `asked_at`: when the listing began, if that was not now.
        """
        before, self._placing, self._listing_failure = self._placing, placing, None
        lost = self._judged(placing, asked_at or now)
        self._wants_placing = bool(self._doubtful)
        waiting: Iterable[QueuedRecord] = ()
        if before is None or not placing.sorts_as(before):
            waiting = self._emptied()
            self._outboxes = {box.shard_id: box for box in self._outboxes.values() if box.shard_id in placing.shard_ids}
            self._hold_again(placing, now)
        unplaced, self._unplaced = self._unplaced, []
        if not waiting and not unplaced:
            for record in reversed(lost):
                self._outbox(placing.outbox_of(record), now).add_first([record])
            return
        # Sorting is stable, each list is in order, and what is lost of a key came before what waits.
        self._sort_in(sorted(chain(lost, waiting, unplaced), key=_arrived_at), now)

    def placing_failed(self, why: Exception) -> None:
        """The shards could not be listed. Records that wait for a listing are given up now if waiting cannot help."""
        self._listing_failure = why
        if not self._may_pass(why):
            self._give_up([*self._emptied(), *self._unplaced, *self._doubted()], why)
            self._unplaced = []

    def plan(self, now: datetime) -> SendPlan:
        self._give_up_stuck(now)
        calls = list(self._calls(now))
        return SendPlan(calls, self._look_again_at(now), self.wants_placing)

    @property
    def wants_placing(self) -> bool:
        """Whether records that are not settled need a listing of the shards."""
        return self._wants_placing and bool(self._unsettled.total())

    def take_settled(self) -> list[SettledRecords]:
        """The records that were settled since the last call. Call this after each of the other methods."""
        settled, self._settled = self._settled, []
        return settled

    def told(self, settled: Iterable[SettledRecords]) -> None:
        """The program now knows the outcome of these records."""
        for some in settled:
            for record in some.user_records:
                self._unsettled[record.epoch] -= 1

    def settle(self, call: PutCall, answers: Sequence[PutRecord | PutRefused] | Exception, now: datetime) -> None:
        """Apply Kinesis' answers to a call: one for each entry, or an error for all of them.

        A call that is refused for a record that nobody names is put again in halves, until the record is alone.
        """
        self._calls_in_flight -= 1
        if isinstance(answers, RecordRefused):
            self._wants_placing = True  # who places records may have changed
            if len(call.entries) > 1:
                middle = len(call.entries) // 2
                self._divided += [PutCall(half, call.why) for half in (call.entries[:middle], call.entries[middle:])]
                return
        given = self._given(call, answers)
        taken: dict[int, Outbox] = {}
        refused: dict[int, tuple[Outbox, PutRefused]] = {}
        for entry, answer in reversed(list(zip(call.entries, given, strict=True))):
            del self._in_flight[id(entry)]
            if isinstance(answer, PutRecord):
                self._has_worked = True
                taken.update((id(box), box) for box in entry.waiting_for_it)
                self._landed(entry, answer, now)
                continue
            _release(entry)
            if entry.is_aggregate and _is_for_good(answer):
                self._halve(entry, now)
            elif isinstance(answer, PutRefused):
                refused.update({id(box): (box, answer) for box in entry.waiting_for_it})
                self._refused(entry, answer, now)
            else:
                self._give_up_alone(
                    entry, refused_alone(entry, answer) if isinstance(answer, RecordRefused) else answer
                )
        for box in taken.values():
            box.refused, box.failing_since, box.not_before = 0, None, None
        for box, why in refused.values():
            if box.failing_since is None and id(box) not in taken:
                box.failing_since = now
            box.refused, box.refusal, box.not_before = box.refused + 1, why, now + self._pause(box.refused)

    def _given(
        self, call: PutCall, answers: Sequence[PutRecord | PutRefused] | Exception
    ) -> Sequence[PutRecord | PutRefused | Exception]:
        if not isinstance(answers, Exception):
            return answers
        given = refusal_of(answers) if self._may_pass(answers) else answers
        return [given] * len(call.entries)

    def _may_pass(self, problem: Exception) -> bool:
        """Whether to wait for `patience`. What Kinesis has never taken may be a mistake of the program's, and is said
        at once.
        """
        return isinstance(problem, TransientError) or (self._has_worked and may_pass(problem))

    def _halve(self, entry: OutboxEntry, now: datetime) -> None:
        """Some record of the aggregate is refused for good: put it again in smaller ones, until the record is alone."""
        assert self._placing is not None
        back: Counter[str] = Counter()
        for record in reversed(entry.user_records):
            shard_id = self._placing.outbox_of(record)
            self._outbox(shard_id, now).add_first([record])
            back[shard_id] += 1
        for shard_id, count in back.items():
            self._outboxes[shard_id].suspect(count, len(entry.user_records) // 2)

    def _give_up_alone(self, entry: OutboxEntry, why: Exception) -> None:
        """The others that were suspected with it go on as usual."""
        for box in entry.waiting_for_it:
            box.suspects = 0
        self._give_up(entry.user_records, why)

    def _sort_in(self, records: Iterable[QueuedRecord], now: datetime) -> None:
        placing = self._placing
        if placing is None:
            if not self._unplaced:
                self._unplaced_since = now
            self._unplaced.extend(records)
            return
        for record in records:
            if record.hash_key is None and not placing.may_be_keyless:
                self._give_up([record], RecordRefused(KEYLESS_REFUSED))
            else:
                self._outbox(placing.outbox_of(record), now).add(record)

    def _outbox(self, shard_id: str, now: datetime) -> Outbox:
        box = self._outboxes.get(shard_id)
        if box is None:
            assert self._placing is not None
            box = self._outboxes[shard_id] = Outbox(shard_id, self._rules, now, is_auto=self._placing.is_auto)
        return box

    def _emptied(self) -> list[QueuedRecord]:
        return list(chain.from_iterable(box.clear() for box in self._outboxes.values()))

    def _doubted(self) -> list[QueuedRecord]:
        doubtful, self._doubtful = self._doubtful, []
        for one in doubtful:
            _release(one.entry)
        return [record for one in doubtful for record in one.entry.user_records]

    def _hold_again(self, placing: RecordPlacing, now: datetime) -> None:
        """Entries in flight hold the new outboxes to which their records would return."""
        for box in self._outboxes.values():
            box.in_flight = 0
        for entry in [*self._in_flight.values(), *(one.entry for one in self._doubtful)]:
            entry.is_outdated = True
            shard_ids = dict.fromkeys(placing.outbox_of(record) for record in entry.user_records)
            entry.waiting_for_it = tuple(self._outbox(shard_id, now) for shard_id in shard_ids)
            for box in entry.waiting_for_it:
                box.in_flight += 1

    def _judged(self, placing: RecordPlacing, asked_at: datetime) -> list[QueuedRecord]:
        """Settles the aggregates whose shard is known now. Returns the records of those that KCL drops."""
        doubtful, self._doubtful = self._doubtful, []
        lost: list[QueuedRecord] = []
        for one in doubtful:
            shards = None if placing.is_auto else placing.shards
            order = self._birth_order(shards, one.landed)
            if order > 0 and asked_at - one.since > LISTING_LAGS:
                order, self._births_tell = 0, False
            is_listed = shards is None or one.landed.shard_id in shards.ranges
            if order > 0 or (order == 0 and not is_listed):
                self._doubtful.append(one)
                continue
            _release(one.entry)
            is_there = order == 0  # otherwise it was in a stream that has been deleted since
            if shards is not None and is_there and shards.covers(one.landed.shard_id, _hash_keys(one.entry)):
                self._succeeded(one.entry, one.landed)
            else:
                lost += one.entry.user_records
        self._counts["sent_again"] += len(lost)
        return lost

    def _landed(self, entry: OutboxEntry, at: PutRecord, now: datetime) -> None:
        """What lands as predicted is in the shard that was meant, if that is still the same shard."""
        known = None if self._placing is None else self._placing.shards
        order = self._birth_order(known, at)
        is_elsewhere = at.shard_id != entry.predicted or order != 0
        if entry.predicted and (is_elsewhere or entry.is_outdated):
            is_covered = known is not None and not order and known.covers(at.shard_id, _hash_keys(entry))
            self._wants_placing = self._wants_placing or is_elsewhere or not is_covered
            if entry.is_aggregate and not is_covered:
                self._doubtful.append(_MisplacedAggregate(entry, at, now))
                return
        _release(entry)
        self._succeeded(entry, at)

    def _birth_order(self, shards: ShardMap | None, at: PutRecord) -> int:
        if shards is None or not self._births_tell:
            return 0
        return shards.birth_order(at.shard_id, at.sequence_number)

    def _succeeded(self, entry: OutboxEntry, at: PutRecord) -> None:
        count = len(entry.user_records)
        self._counts.update(user_records=count, stream_records=1, aggregated=count if entry.is_aggregate else 0)
        self._settle_all(entry.user_records, at)

    def _refused(self, entry: OutboxEntry, why: PutRefused, now: datetime) -> None:
        if not why.passes:
            self._give_up_alone(entry, refused_for_good(entry, why))
            return
        until = now - self._rules.patience
        old = [r for r in entry.user_records if (r.tried_at or now) <= until]
        self._give_up(old, timed_out(why, self._rules.patience))
        left = [r for r in entry.user_records if (r.tried_at or now) > until]
        assert self._placing is not None
        self._counts["retried"] += bool(left)
        for record in reversed(left):
            self._outbox(self._placing.outbox_of(record), now).add_first([record])

    def _give_up_stuck(self, now: datetime) -> None:
        until = now - self._rules.patience
        count = 0
        if self._unplaced_since is not None and self._unplaced_since <= until:
            count = bisect_right(self._unplaced, until, key=_arrived_at)  # they may be very many, and are in order
        old, self._unplaced[:count] = self._unplaced[:count], []
        self._give_up(old, self._listing_failure or RecordTimedOut(NO_LISTING.format(self._rules.patience)))
        for box in self._outboxes.values():
            if box.failing_since is not None and box.failing_since <= until and box.waiting and box.refusal is not None:
                old, newer = _parted(box.clear(), until)
                box.add_first(newer)
                self._give_up(old, timed_out(box.refusal, self._rules.patience))
        for one in [one for one in self._doubtful if one.since <= until]:
            self._doubtful.remove(one)
            _release(one.entry)
            not_listed = RecordTimedOut(NOT_LISTED.format(one.landed.shard_id))
            self._give_up(one.entry.user_records, self._listing_failure or not_listed)

    def _give_up(self, records: Sequence[QueuedRecord], why: Exception) -> None:
        if records:
            self._counts["given_up"] += len(records)
            self._settle_all(records, why)

    def _settle_all(self, records: Sequence[QueuedRecord], outcome: PutRecord | Exception) -> None:
        self._settled.append(SettledRecords(records, outcome))

    def _calls(self, now: datetime) -> Iterator[PutCall]:
        while self._calls_in_flight < self._rules.max_connections:
            call = self._divided.pop(0) if self._divided else self._next_call(now)
            if call is None:
                return
            self._calls_in_flight += 1
            self._counts["calls"] += 1
            self._in_flight.update((id(entry), entry) for entry in call.entries)
            yield call

    def _next_call(self, now: datetime) -> PutCall | None:
        free = [box for box in self._outboxes.values() if not box.is_held and box.may_send_at(now) <= now]
        whys = {why for box in free if (why := box.why(now, self._flushed_at)) is not None}
        if not whys:
            return None
        fills_up = not whys <= {SendReason.FULL, SendReason.RETRY}
        room, entries = CallRoom(), []
        for box in free:
            why = box.why(now, self._flushed_at)
            if why is None and not fills_up:
                continue
            taken = list(box.take(now, room, only_full=why is SendReason.FULL and not fills_up))
            entries += taken
            if taken:  # the other outboxes come first in the next call
                self._outboxes[box.shard_id] = self._outboxes.pop(box.shard_id)
        return PutCall(entries, next(why for why in SendReason if why in whys)) if entries else None

    def _look_again_at(self, now: datetime) -> datetime | None:
        moments = [
            box.failing_since + self._rules.patience
            for box in self._outboxes.values()
            if box.failing_since is not None and box.failing_since + self._rules.patience > now and box.waiting
        ]
        if self._unplaced and self._unplaced_since is not None:
            moments.append(max(self._unplaced[0].arrived_at, self._unplaced_since) + self._rules.patience)
        if self._calls_in_flight < self._rules.max_connections:
            moments += [
                max(box.may_send_at(now), box.wants_to_send_at(now, self._flushed_at))
                for box in self._outboxes.values()
                if not box.is_held
            ]
        return min(moments, default=None)

    def _pause(self, refused: int) -> timedelta:
        """The pause after a refusal: doubled each time, and shortened by chance by up to half."""
        longest: timedelta = min(FIRST_PAUSE * 2 ** min(refused, 10), LONGEST_PAUSE)
        return longest * (1 - self._chance.getrandbits(16) / 2**17)


def _parted(records: Sequence[QueuedRecord], until: datetime) -> tuple[list[QueuedRecord], list[QueuedRecord]]:
    """The records that arrived up to this moment, and the later ones."""
    old = [record for record in records if record.arrived_at <= until]
    return old, [record for record in records if record.arrived_at > until]


def _arrived_at(record: QueuedRecord) -> datetime:
    return record.arrived_at


def _hash_keys(entry: OutboxEntry) -> Iterator[int]:
    return (record.hash_key for record in entry.user_records if record.hash_key is not None)


def _is_for_good(answer: PutRefused | Exception) -> bool:
    return isinstance(answer, RecordRefused) or (isinstance(answer, PutRefused) and not answer.passes)


def _release(entry: OutboxEntry) -> None:
    for box in entry.waiting_for_it:
        box.in_flight -= 1
