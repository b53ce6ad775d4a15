"""What a seek repeats or skips, in time and records, and how long the fleet then needs to catch up. Pure.

It assumes that records arrive evenly over time and over the hash keys, and reads only one page at each position.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from sublet.decisions.session.handled_position import HandledPosition
from sublet.decisions.status.lease_history import seen_by_owners
from sublet.decisions.status.status_rules import STANDS, StatusReason, TimeStanding, standing_of
from sublet.operate.rules.examination import Volume
from sublet.operate.rules.seek import BEGINNING, END, LeaseMove, MoveEffect, SeekPlan
from sublet.protocol.checkpoint import LATEST
from sublet.protocol.lease import Lease, Position
from sublet.protocol.records import Page
from sublet.protocol.shard import FULL_RANGE, HashKeyRange, Shard, children_by_parent, creation_order
from sublet.settings import READ_BYTES_PER_SECOND

NO_TIME = timedelta(0)
REPEATING = (MoveEffect.REPEATS, MoveEffect.REOPENS)


class CountedBy(StrEnum):
    """Where the number of records comes from."""

    CLOUDWATCH = "CloudWatch"
    """IncomingRecords of the stream: an aggregate is one record."""
    SAMPLE = "a sample of the shards"
    """A page read at both ends of each span: an aggregate is one record here too."""


@dataclass(frozen=True, slots=True)
class SeekEvidence:
    """What is known about a plan's positions in time.

    now       by the service's clock
    oldest    no record that can still be read arrived before this moment
    moment    the time to which the seek goes; None if it goes to positions
    standing  by lease key, what the shard answered at the lease's position
    sought    by lease key, what it answered at the position that the plan moves the lease to
    begins    by shard id, when the first record arrived
    incoming  how much is put into the stream; None if CloudWatch does not say
    """

    now: datetime
    oldest: datetime
    moment: datetime | None = None
    standing: Mapping[str, HandledPosition] = field(default_factory=dict)
    sought: Mapping[str, HandledPosition] = field(default_factory=dict)
    begins: Mapping[str, datetime] = field(default_factory=dict)
    incoming: Volume | None = None


class CatchUp(Struct, frozen=True):
    """When an open shard will be read to its tip again.

    within    at the pace of its owner's last reports; None: not known, or never
    is_never  by these reports the shard is read more slowly than records arrive
    at_least  the shortest time that Kinesis' read limit allows; None: not known
    """

    within: timedelta | None = None
    is_never: bool = False
    at_least: timedelta | None = None


class MoveEstimate(Struct, frozen=True):
    """The estimate of one move. None means that a value is not known.

    since       the repeated or skipped records arrived after this time, and up to `until`
    records     about how many these are
    catch_up    None for a shard that takes no more records
    is_trimmed  the record that the plan goes back to is past retention, so what followed it is lost
    is_whole    nothing is repeated or skipped: the shard begins, at its first record
    """

    effect: MoveEffect
    since: datetime | None = None
    until: datetime | None = None
    records: int | None = None
    catch_up: CatchUp | None = None
    is_trimmed: bool = False
    is_whole: bool = False

    @property
    def time(self) -> timedelta | None:
        return None if self.since is None or self.until is None else max(self.until - self.since, NO_TIME)


class EstimateTotal(Struct, frozen=True):
    """The sum of all moves that repeat records, or of all moves that skip some.

    shards   how many
    time     from the first of their records to the last; None if it is not known of any shard
    records  the sum; None if none is known
    unknown  for how many shards either of these is not known
    """

    shards: int
    time: timedelta | None
    records: int | None
    unknown: int


@dataclass(frozen=True, slots=True)
class SeekEstimate:
    """`moves`: by lease key. `counted_by`: None if no number of records is known."""

    moves: Mapping[str, MoveEstimate] = field(default_factory=dict)
    counted_by: CountedBy | None = None

    @property
    def repeats(self) -> EstimateTotal:
        return _extent(move for move in self.moves.values() if move.effect in REPEATING)

    @property
    def skips(self) -> EstimateTotal:
        return _extent(
            move
            for move in self.moves.values()
            if move.effect is MoveEffect.SKIPS or (move.effect is MoveEffect.BEGINS and not move.is_whole)
        )

    @property
    def trimmed(self) -> Sequence[str]:
        """Lease keys."""
        return sorted(key for key, move in self.moves.items() if move.is_trimmed)

    @property
    def catch_up(self) -> CatchUp:
        """The catch-up of the shard that takes longest; its time is known only if that of every shard is."""
        each = [move.catch_up for move in self.moves.values() if move.catch_up is not None]
        known = [one.within for one in each if one.within is not None]
        return CatchUp(
            max(known) if known and len(known) == len(each) else None,
            any(one.is_never for one in each),
            max((one.at_least for one in each if one.at_least is not None), default=None),
        )


def joined(estimates: Iterable[SeekEstimate]) -> SeekEstimate:
    """Adds up the estimates of several streams. Records count as CloudWatch's only if all of them are."""
    each = tuple(estimates)
    counted_by = {one.counted_by for one in each} - {None}
    moves = {key: move for one in each for key, move in one.moves.items()}
    return SeekEstimate(moves, max(counted_by, default=None, key=lambda by: by is CountedBy.SAMPLE))


def _extent(moves: Iterable[MoveEstimate]) -> EstimateTotal:
    each = list(moves)
    known = [(move.since, move.until) for move in each if move.since is not None and move.until is not None]
    time = None
    if known:
        time = max(max(until for _, until in known) - min(since for since, _ in known), NO_TIME)
    records = [move.records for move in each if move.records is not None]
    unknown = sum(move.time is None or move.records is None for move in each)
    return EstimateTotal(len(each), time, sum(records) if records else None, unknown)


def estimate_of(plan: SeekPlan, shards: Sequence[Shard], known: SeekEvidence) -> SeekEstimate:
    """`shards`: all shards of the stream, even those that the plan does not move."""
    arrivals = _ArrivalTimes(known, children_by_parent(shards), frozenset(shard.shard_id for shard in shards))
    rates = _rates(shards, known)
    read_from = _read_from(plan, arrivals)
    found = {
        move.lease_key: _estimate(move, read_from, arrivals, rates.get(move.shard.shard_id), known)
        for move in plan.moves
    }
    is_counted = bool(rates) and any(move.records is not None for move in found.values())
    return SeekEstimate(found, CountedBy.CLOUDWATCH if is_counted else None)


def _estimate(
    move: LeaseMove,
    read_from: Mapping[str, datetime],
    arrivals: _ArrivalTimes,
    rate: float | None,
    known: SeekEvidence,
) -> MoveEstimate:
    since, until = _ends(move, arrivals)
    sought = known.sought.get(move.lease_key)
    found = MoveEstimate(
        move.effect,
        since,
        until,
        catch_up=_catch_up(move, read_from.get(move.shard.shard_id), known) if move.shard.is_open else None,
        is_trimmed=sought is not None and sought.handled_to is None and bool(sought.lag),
        is_whole=move.effect is MoveEffect.BEGINS and (move.then == BEGINNING or since == until is not None),
    )
    if found.time is None or (rate is None and found.time):
        return found
    return replace(found, records=round((rate or 0) * found.time.total_seconds()))


def _ends(move: LeaseMove, arrivals: _ArrivalTimes) -> tuple[datetime | None, datetime | None]:
    if move.before == move.then:
        return None, None  # only its owner knows what it has handled since its checkpoint
    before, then = arrivals.before(move), arrivals.then(move)
    return (before, then) if move.effect in (MoveEffect.SKIPS, MoveEffect.BEGINS) else (then, before)


@dataclass(frozen=True, slots=True)
class _ArrivalTimes:
    """When the record at a position arrived; None if that is not known."""

    known: SeekEvidence
    children: Mapping[str, frozenset[str]]
    listed: frozenset[str]

    def before(self, move: LeaseMove) -> datetime | None:
        asked = self.known.standing.get(move.lease_key)
        report = None if move.lease is None else move.lease.lag_report
        return self._of(move.before, move.shard, asked) or (None if report is None else report.arrived_at)

    def then(self, move: LeaseMove) -> datetime | None:
        moment = self.known.moment
        is_its_beginning = move.then == BEGINNING and has_parents(move.shard, self.listed)
        if moment is not None and move.then != END and not is_its_beginning:
            return min(max(moment, self.known.oldest), self.known.now)
        return self._of(move.then, move.shard, self.known.sought.get(move.lease_key))

    def _of(self, at: Position, shard: Shard, asked: HandledPosition | None) -> datetime | None:
        known = self.known
        found: datetime | None
        if at == END:
            begins = [known.begins.get(child) for child in self.children.get(shard.shard_id, ())]
            found = min((began for began in begins if began is not None), default=None)
        elif at.start_at is not None:
            found = at.start_at
        elif at.checkpoint == LATEST:
            found = known.now
        elif asked is not None and (asked.handled_to is not None or asked.lag is not None):
            found = asked.handled_to or known.now - (asked.lag or NO_TIME)
        elif at == BEGINNING:
            oldest = None if has_parents(shard, self.listed) else known.oldest
            found = known.begins.get(shard.shard_id, oldest)
        else:
            found = None
        return None if found is None else max(found, known.oldest)


def has_parents(shard: Shard, listed: Collection[str]) -> bool:
    """Whether the stream still lists a parent of the shard: then the shard's first record is within retention."""
    return not shard.parent_shard_ids.isdisjoint(listed)


def _catch_up(move: LeaseMove, since: datetime | None, known: SeekEvidence) -> CatchUp:
    """`since`: see `_read_from`."""
    if since is None:
        return CatchUp()
    lag = max(known.now - since, NO_TIME)
    if not lag:
        return CatchUp(NO_TIME)
    at_least = None
    if known.incoming is not None:
        arriving = known.incoming.bytes_per_second * _part(move.shard.hash_key_range)
        if arriving < READ_BYTES_PER_SECOND:
            at_least = lag * (arriving / (READ_BYTES_PER_SECOND - arriving))
    trend = None if move.lease is None else _pace(move.lease, known)
    if trend is None:
        return CatchUp(at_least=at_least)
    return CatchUp(lag / -trend, at_least=at_least) if trend < 0 else CatchUp(is_never=True, at_least=at_least)


def _read_from(plan: SeekPlan, arrivals: _ArrivalTimes) -> Mapping[str, datetime]:
    """When the first record that is read arrived, by shard id. This may be an ancestor's record, if the plan reads that
    too.
    """
    found: dict[str, datetime] = {}
    for move in sorted(plan.moves, key=lambda move: creation_order(move.shard)):
        if move.then == END:
            continue
        each = [found[parent] for parent in move.shard.parent_shard_ids if parent in found]
        own = arrivals.then(move)
        if own is not None:
            each.append(own)
        if each:
            found[move.shard.shard_id] = min(each)
    return found


def _trend(lease: Lease, known: SeekEvidence) -> float | None:
    """Returns by how many seconds the lag has grown each second. None: it is not known, or the shard was at its tip."""
    return _standing(lease, known).trend


def _pace(lease: Lease, known: SeekEvidence) -> float | None:
    """The trend, if it shows how fast the shard can be read. It does not if the shard was at its tip lately and the lag
    grows, if its position does not move, or if there are only a few reports since the lease was taken or moved.
    """
    standing = _standing(lease, known)
    trend, because = standing.trend, standing.verdict.because
    is_at_tip = because is StatusReason.WAS_CAUGHT_UP and trend is not None and trend >= 0
    is_no_pace = is_at_tip or standing.verdict.status in STANDS
    return None if is_no_pace or because is StatusReason.WATCHED_BRIEFLY else trend


def _standing(lease: Lease, known: SeekEvidence) -> TimeStanding:
    history, here = seen_by_owners(lease)
    asked = known.standing.get(lease.lease_key)
    return standing_of(lease, history, known.now, waiting=asked.lag if asked else None, here=here)


def _rates(shards: Sequence[Shard], known: SeekEvidence) -> Mapping[str, float]:
    """Records that arrive a second, by shard id: each shard's share, by hash keys, of the stream's. Empty: not known.
    An owner reports how fast it handles records, which is many times what arrives while it catches up.
    """
    incoming = known.incoming
    if incoming is None or not incoming.records_per_second:
        return {}
    return {shard.shard_id: incoming.records_per_second * _part(shard.hash_key_range) for shard in shards}


def _part(hash_keys: HashKeyRange) -> float:
    """This range's share of all hash keys."""
    return (hash_keys.ending - hash_keys.starting + 1) / (FULL_RANGE.ending + 1)


WINDOW = timedelta(minutes=1)
"""How long before a span's end its second page begins, at most half of the span."""

AGREE_WITHIN = 3
"""If one end has more than so many times the records of the other in the same time, what is between them is not
known.
"""

LEAST_ALIKE = 20
"""Rates of fewer records differ by chance."""


class Sample(NamedTuple):
    """One page, read from a time on. `arrivals`: when its records arrived. `is_all`: nothing follows it yet."""

    start: datetime
    arrivals: tuple[datetime, ...]
    is_all: bool

    @classmethod
    def of(cls, start: datetime, page: Page) -> Sample | None:
        """None for an empty page that lags, which proves nothing."""
        is_all = not page.millis_behind_latest or page.is_shard_end
        if not page.records and not is_all:
            return None
        return cls(start, tuple(record.approximate_arrival_timestamp for record in page.records), is_all)

    def reaches(self, until: datetime) -> bool:
        """Whether the page has all records up to then."""
        return self.is_all or (bool(self.arrivals) and max(self.arrivals) > until)

    def count(self, until: datetime) -> int:
        """The last handled record is repeated by a seek back, and not skipped by one on."""
        return sum(self.start < at <= until for at in self.arrivals)

    def rate(self, until: datetime) -> float | None:
        """Records a second, up to `until` at most. None: it has too few to say."""
        if self.reaches(until):
            span = (until - self.start).total_seconds()
            return self.count(until) / span if span else None
        span = (max(self.arrivals) - self.start).total_seconds()
        return len(self.arrivals) / span if span > 0 else None


def second_start(since: datetime, until: datetime) -> datetime:
    """Where the page at a span's end begins."""
    return until - min(WINDOW, (until - since) / 2)


def records_in(since: datetime, until: datetime, first: Sample | None, second: Sample | None) -> int | None:
    """Returns how many records arrived from `since` to `until`: exactly if the first page has them all. None: not
    known.
    """
    if first is None:
        return None
    if first.reaches(until):
        return first.count(until)
    rates = [None if each is None else each.rate(until) for each in (first, second)]
    if second is None or rates[0] is None or rates[1] is None:
        return None
    low, high = sorted((rates[0], rates[1]))
    is_by_chance = high * WINDOW.total_seconds() < LEAST_ALIKE
    if high > low * AGREE_WITHIN and not is_by_chance:
        return None
    return round((low + high) / 2 * (until - since).total_seconds())
