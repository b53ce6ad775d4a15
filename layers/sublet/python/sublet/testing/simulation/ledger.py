"""The truth about records, hidden from the simulated code: which records exist, and which owner has handled which.

Every handler call and every write to the lease table is checked against it, because only there can anything go wrong.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.records import UserRecord

Place = tuple[int, int]
"""A user record's sequence number and sub-sequence number, which order a shard."""

NEVER = 2**63


@dataclass(slots=True)
class ShardTruth:
    """One shard's user records in order. Indexes count from its first."""

    shard_id: str
    parents: tuple[str, ...]
    required_from: int
    """Records that arrived at this time (microseconds) or later must be handled; NEVER until a reader has asked for
    any.
    """
    wanted_from: int | None = None
    """Earlier records must not be handled: AT_TIMESTAMP, unless an operator has moved the checkpoint."""
    children: tuple[str, ...] = ()
    is_closed: bool = False
    places: list[Place] = field(default_factory=list)
    arrivals: list[int] = field(default_factory=list)
    stamps: list[int] = field(default_factory=list)
    """The records' approximate arrival times, which differ a little from the true ones; start positions refer to
    these.
    """
    strays: set[int] = field(default_factory=set)
    """The records in aggregates outside the shard's range. A worker may drop them or not, by what it knows of the
    stream at that moment.
    """
    unwanted: set[int] = field(default_factory=set)
    """The records that no handler may get: a filter drops them, or they are within an aggregate that comes whole, as
    its last.
    """
    finished: set[int] = field(default_factory=set)
    trimmed: int = 0
    """How many records, from the first, are past retention. If unhandled, they are lost."""
    done_with: int = 0
    """How many records, from the first, were covered when an operator moved the checkpoint, back or forward. They
    cannot get lost any more.
    """
    _all_done_before: int = 0

    def put(
        self,
        place: Place,
        arrival: int,
        stamp: int | None = None,
        *,
        is_stray: bool = False,
        is_unwanted: bool = False,
    ) -> None:
        if is_stray or is_unwanted:
            self.strays.add(len(self.places))
        if is_unwanted:
            self.unwanted.add(len(self.places))
        self.places.append(place)
        self.arrivals.append(arrival)
        self.stamps.append(arrival if stamp is None else stamp)

    def index_of(self, record: UserRecord) -> int:
        place = (int(record.sequence_number), record.sub_sequence_number)
        index = bisect_left(self.places, place)
        return index if index < len(self.places) and self.places[index] == place else -1

    def covered_by(self, checkpoint: Checkpoint) -> int:
        """How many of the records, from the first, the checkpoint covers."""
        if checkpoint.is_shard_end:
            return len(self.places)
        if not checkpoint.is_sequence_number:
            return 0
        return bisect_right(self.places, (int(checkpoint.sequence_number), checkpoint.sub_sequence_number))

    def follows(self, first: int, after: int) -> bool:
        """Whether `first` is the next record for a reader at `after`: the very next one, or the oldest that is left."""
        after = self.without_strays(after, first)
        return after <= first <= max(after, self.trimmed)

    def without_strays(self, after: int, first: int) -> int:
        """Returns where a reader is that has dropped the strays between `after` and `first`."""
        while after in self.strays and after < first:
            after += 1
        return after

    def require(self, since: int) -> None:
        self.required_from, self._all_done_before = since, 0

    def is_required(self, index: int) -> bool:
        return index >= self.trimmed and self._is_asked_for(index)

    def _is_asked_for(self, index: int) -> bool:
        is_late_enough = min(self.arrivals[index], self.stamps[index]) >= self.required_from
        return is_late_enough and index not in self.strays

    def trim(self, before: int) -> Sequence[int]:
        """Trims records that arrived before the moment. Returns the required ones that were unfinished."""
        began, self.trimmed = self.trimmed, bisect_left(self.arrivals, before)
        gone = range(began, self.trimmed)
        return [i for i in gone if self._is_asked_for(i) and i not in self.finished]

    @property
    def lost(self) -> int:
        """How many required records were trimmed unfinished."""
        gone = range(self.trimmed)
        return sum(self._is_asked_for(i) and i not in self.finished for i in gone)

    def done_before(self) -> int:
        """The index of the first required record that no handler has finished."""
        while self._all_done_before < len(self.places) and (
            self._all_done_before in self.finished or not self.is_required(self._all_done_before)
        ):
            self._all_done_before += 1
        return self._all_done_before

    def oldest_waits(self, now: int) -> int:
        """How long the oldest unhandled required record has waited."""
        first = self.done_before()
        return now - self.arrivals[first] if first < len(self.places) else 0

    @property
    def is_all_done(self) -> bool:
        return self.done_before() == len(self.places)


@dataclass(slots=True)
class Session:
    """One owner's run over a shard, from the acquire on."""

    floor: int
    """How many records the checkpoint covered when the session acquired the lease. None of these may be handled
    again.
    """
    next: int | None = None
    """The index after the last record finished in this session."""
    moved_to: list[int] = field(default_factory=list)
    """The places to which an operator has moved the row meanwhile, in order. Once the session has noticed, it restarts
    at one of them.
    """
    late_to: list[int] = field(default_factory=list)
    """The places to which late checkpoints of earlier owners have moved the row meanwhile."""
    is_moved: bool = False
    """Whether an operator has moved the row since the acquire, perhaps to behind what its ancestors are to deliver
    again.
    """
    is_orphaned: bool = False
    """True if an operator deleted the row under the session: the stored position no longer limits it."""


class OrderBroken(Exception):
    """A forbidden handler call."""


class Ledger:
    def __init__(self) -> None:
        self.shards: dict[str, ShardTruth] = {}
        self.sessions: dict[tuple[object, str], Session] = {}
        self.handled = 0
        """Finished records, repeats counted again."""
        self.set_aside: set[tuple[str, int]] = set()
        """Shard and index of each record that a destination has: as done as a handled one."""
        self.observers: list[Callable[[str, int], None]] = []
        """Called with the shard and index of each record that is finished, or set aside with its owner's knowledge."""
        self.move_observers: list[Callable[[str], None]] = []
        """Called with the shard whose checkpoint an operator moves."""
        self.is_seeking = False
        """Whether an operator is moving one shard after the other: some are open again, while their children still go
        on.
        """

    def begin_session(self, owner: object, shard_id: str, checkpoint: Checkpoint) -> None:
        self.sessions[owner, shard_id] = Session(self.shards[shard_id].covered_by(checkpoint))

    def moved_before_it_began(self, owner: object, shard_id: str, to: Checkpoint) -> None:
        """Notes that an operator moved the row after the session's worker had read it."""
        self.sessions[owner, shard_id].moved_to.append(self.shards[shard_id].covered_by(to))

    def orphan_sessions(self, shard_id: str) -> None:
        for (_, of_shard), session in self.sessions.items():
            session.is_orphaned = session.is_orphaned or of_shard == shard_id

    def moved(self, shard_id: str, before: Checkpoint, now: Checkpoint) -> None:
        """Notes that an operator moved the row: records before its position are done with, and records after it that
        are no longer covered have to be handled again.
        """
        shard = self.shards[shard_id]
        for each in self.shards.values():  # its descendants are read whole
            each.wanted_from = None
        covered = shard.covered_by(now)
        shard.done_with = max(shard.done_with, shard.covered_by(before), covered)
        shard.finished = {i for i in shard.finished if i < covered or now >= before} | set(range(covered))
        shard.require(shard.required_from)
        for (_, of_shard), session in self.sessions.items():
            if of_shard == shard_id:
                session.moved_to.append(covered)
                session.is_moved = True
        for observer in self.move_observers:
            observer(shard_id)

    def rewound(self, shard_id: str, to: int) -> None:
        """Notes that an operator moved the row back, while none of our sessions can have seen it: records that are no
        longer covered have to be handled again.
        """
        shard = self.shards[shard_id]
        shard.finished = {index for index in shard.finished if index < to}
        shard.require(shard.required_from)
        for observer in self.move_observers:
            observer(shard_id)

    def checkpointed_late(self, owner: object, shard_id: str, to: Checkpoint) -> None:
        """Notes a late checkpoint: later owners may continue from its position.

        An operator may have put the row back to where this owner had it when it was suspended, which looks like a row
        that was never moved. What this owner has finished then counts, although it was to be read again.
        """
        shard, session = self.shards[shard_id], self.sessions.get((owner, shard_id))
        covered = shard.covered_by(to)
        if session is not None and session.moved_to and covered <= (session.next or 0):
            shard.finished |= set(range(covered))
        for (other, of_shard), theirs in self.sessions.items():
            if of_shard == shard_id and other is not owner:
                theirs.late_to.append(covered)

    def is_moving(self, owner: object, shard_id: str) -> bool:
        """Whether the owner may not know yet that its row has been moved."""
        session = self.sessions.get((owner, shard_id))
        return session is not None and bool(session.moved_to)

    def check_batch(
        self, owner: object, shard_id: str, records: Sequence[UserRecord], stored: Checkpoint | None
    ) -> None:
        """`stored`: the shard's current checkpoint in the lease table."""
        shard, session = self.shards[shard_id], self.sessions.get((owner, shard_id))
        if session is None:
            raise OrderBroken("handled without ever having acquired the lease")
        first = following = shard.index_of(records[0])
        for offset, record in enumerate(records):
            index = shard.index_of(record)
            is_next = index == shard.without_strays(following, index)
            following = index + 1
            if not is_next or first < 0:
                raise OrderBroken(
                    f"record {offset} of a batch is {record.checkpoint}: not of this shard, or out of order"
                )
        self._check_wanted(shard, records)
        if shard.wanted_from is not None and shard.arrivals[first] < shard.wanted_from:
            raise OrderBroken(f"record {first} arrived before the moment to start at")
        self._begin_again(shard, session, first, stored)
        if session.next is not None and not shard.follows(first, session.next):
            raise OrderBroken(f"went on with record {first}, after having finished those before {session.next}")
        if session.next is None and not session.moved_to and not session.is_orphaned:
            self._check_start(shard, session, first, stored)
        if self.is_seeking or session.is_moved:
            return
        for ancestor in self.ancestors(shard_id):
            if not self.shards[ancestor].is_all_done:
                raise OrderBroken(f"begun while its ancestor {ancestor} has unhandled records")

    def _check_wanted(self, shard: ShardTruth, records: Sequence[UserRecord]) -> None:
        if shard.unwanted and (odd := [each for each in records if shard.index_of(each) in shard.unwanted]):
            raise OrderBroken(f"a batch has {odd[0].checkpoint}, which no handler may get")

    def ancestors(self, shard_id: str) -> Sequence[str]:
        """All of them, nearest first: a parent without records is done with, whatever its own parents are."""
        found = dict.fromkeys(self.shards[shard_id].parents)
        left = list(found)
        while left:
            more = [each for each in self.shards[left.pop()].parents if each not in found]
            found |= dict.fromkeys(more)
            left += more
        return tuple(found)

    def _begin_again(self, shard: ShardTruth, session: Session, first: int, stored: Checkpoint | None) -> None:
        """Restarts a session where an operator or an earlier owner's late checkpoint has moved the row: further on, or
        also back, if an operator had moved it back before. A session that has not noticed goes on.
        """
        if session.next is None or shard.follows(first, session.next):
            return
        moved_to = next((at for at in session.moved_to if shard.follows(first, at)), None)
        if moved_to is not None:
            session.moved_to = session.moved_to[session.moved_to.index(moved_to) + 1 :]
            session.floor = session.next = first
        elif any((session.moved_to or at > session.next) and shard.follows(first, at) for at in session.late_to):
            session.floor = session.next = first
        elif stored is not None and shard.covered_by(stored) > session.next:
            session.floor = session.next = shard.covered_by(stored)

    def _check_start(self, shard: ShardTruth, session: Session, first: int, stored: Checkpoint | None) -> None:
        if first < session.floor:
            raise OrderBroken(
                f"began with record {first}, though the checkpoint covered {session.floor} when it acquired"
            )
        covered = session.floor if stored is None else shard.covered_by(stored)
        if any(shard.is_required(index) for index in range(covered, first)):
            raise OrderBroken(f"began with record {first}, though the checkpoint covers {covered} only")

    def give_up(self, owner: object, shard_id: str, records: Sequence[UserRecord], *, is_answered: bool) -> None:
        """Notes that the destination has the records. `is_answered`: the owner knows."""
        shard, session = self.shards[shard_id], self.sessions[owner, shard_id]
        for record in records:
            index = shard.index_of(record)
            if is_answered and session.next is not None and self._is_out_of_turn(shard, session.next, index):
                raise OrderBroken(f"set record {index} aside, having finished those before {session.next}")
            self.note_set_aside(shard_id, index, is_answered=is_answered)
            session.next = index + 1 if is_answered else session.next

    def note_set_aside(self, shard_id: str, index: int, *, is_answered: bool) -> None:
        self.shards[shard_id].finished.add(index)
        self.set_aside.add((shard_id, index))
        if is_answered:
            self._tell(shard_id, index)

    def _tell(self, shard_id: str, index: int) -> None:
        for observer in self.observers:
            observer(shard_id, index)

    def _is_out_of_turn(self, shard: ShardTruth, following: int, index: int) -> bool:
        """Finished records may be set aside out of turn: an abandoned call may have ended after all, or an earlier
        owner's late checkpoint may have moved the position.
        """
        if index < following:
            return index not in shard.finished
        return any(i not in shard.finished and shard.is_required(i) for i in range(following, index))

    def finish(self, owner: object, shard_id: str, record: UserRecord) -> None:
        """Notes that the handler has finished this record, and those before it in its batch."""
        self.hand_over(owner, shard_id, record)
        self.finish_kept(shard_id, record)

    def hand_over(self, owner: object, shard_id: str, record: UserRecord) -> None:
        """Notes that the next batch follows this record, whether it is finished or the handler still keeps it."""
        self.sessions[owner, shard_id].next = self.shards[shard_id].index_of(record) + 1

    def finish_kept(self, shard_id: str, record: UserRecord) -> None:
        """Notes that a record is finished that may have been handed over long ago; the next batch stays the same."""
        shard = self.shards[shard_id]
        index = shard.index_of(record)
        shard.finished.add(index)
        self.handled += 1
        self._tell(shard_id, index)

    def begin_reading(self, owner: object, shard_id: str) -> None:
        """Notes that the handler was told where the next batch begins: unfinished records are delivered again."""
        if session := self.sessions.get((owner, shard_id)):
            session.next = None
