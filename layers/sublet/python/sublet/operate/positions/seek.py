"""Carries a seek out, lease by lease, beside a running fleet, and keeps what undoes it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec.structs import replace as replaced

from sublet.decisions.manager.stream_adoption import other_stream, other_streams_lease, suspects
from sublet.decisions.plurals import counted
from sublet.decisions.session.read_position import read_position
from sublet.engine.manager.adoption import is_foreign
from sublet.errors import CheckpointNotInStream, SeekRefused, ShardNotFound
from sublet.operate.rules.seek import LeaseMove, SeekPlan
from sublet.ports import Applied, Ports
from sublet.protocol.lease import Lease, Position
from sublet.protocol.lease_writes import create, seek
from sublet.protocol.shard import Shard
from sublet.protocol.snapshot import Snapshot
from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.stream_info import StreamDescription
from sublet.protocol.write_clauses import SEEK_LEAP

TRIES = 10
"""How often a lease is tried, because its owner's heartbeats and checkpoints come in between."""


def check_stream(
    application: str,
    known: StreamIdentity | None,
    leases: Sequence[Lease],
    shards: Sequence[Shard],
    ports: Ports,
) -> StreamDescription | None:
    """The stream as it is; None in an application of several, where a lease's key says which stream it is of, so that
    no lease is another's. Raises StreamNotAdopted if the leases are another stream's: its sequence numbers would stop
    every shard.

    known  the stream of the leases, as lease managers have stored it; None if it is not known
    """
    if ports.streams is not None:
        return None
    described = ports.stream.describe()
    found = described.identity
    if known is not None and not known.is_same_as(found):
        raise other_stream(application, known, found)
    for suspect in suspects(leases, shards):
        if is_foreign(suspect, ports):
            raise other_streams_lease(application, suspect, found)
    return described


def opens(lease: Lease, ports: Ports) -> bool:
    """Whether the stream accepts the lease's position, by one GetShardIterator."""
    position = read_position(lease) if lease.checkpoint.is_sequence_number else None
    if position is None:
        return True
    try:
        ports.stream.reader(lease.shard_id, position).open()
    except (CheckpointNotInStream, ShardNotFound):
        return False
    return True


@dataclass(slots=True)
class SeekRun:
    """`run` it once.

    only_from_there  refuse a lease that is no longer where the plan found it
    before           the positions that were replaced, by lease key, which undo it exactly
    """

    plan: SeekPlan
    ports: Ports
    why: str
    only_from_there: bool = False
    before: dict[str, Position] = field(default_factory=dict, init=False)
    _checked: Mapping[str, Lease] | None = field(default=None, init=False)

    def check(self) -> None:
        """Looks at all leases of the plan at once, before the first is moved. Raises SeekRefused where it is no longer
        true.
        """
        self._checked = {lease.lease_key: lease for lease in self.ports.table.scan().leases}
        for move in (*self.plan.moves, *self.plan.waiting):
            if move.lease is not None:
                self._refuse(move, self._checked.get(move.lease_key), None)

    def run(self) -> None:
        """Raises SeekRefused where a lease has changed so that the plan is no longer true of it. Those before it have
        been moved then, and are named; the same seek planned again goes on from there.
        """
        if self._checked is None:
            self.check()
        for move in self.plan.ended:
            self._create(move)
        for move in self.plan.moves:
            self._note(move, self._create(move) if move.lease is None else self._move(move))
        for move in self.plan.waiting:
            before = self._move(move)
            if before != move.then:
                self._note(move, before)

    def _note(self, move: LeaseMove, before: Position) -> None:
        self.before[move.lease_key] = before
        self.ports.log.info(
            "position moved",
            lease_key=move.lease_key,
            before=_text(before),
            now=_text(move.then),
            why=self.why,
        )

    def _create(self, move: LeaseMove) -> Position:
        shard = move.shard
        lease = Lease(
            move.lease_key,
            move.then.checkpoint,
            parent_shard_ids=shard.parent_shard_ids,
            hash_key_range=shard.hash_key_range,
            start_at=move.then.start_at,
        )
        if isinstance(self.ports.table.apply(create(lease)), Applied):
            return move.before
        return self._move(replace(move, lease=lease))

    def _move(self, move: LeaseMove) -> Position:
        """Returns the position that was replaced."""
        assert self._checked is not None
        before: Position | None = None
        for _ in range(TRIES):
            found = self.ports.table.get(move.lease_key)
            row = found if isinstance(found, Lease) else None
            if row is not None and (before is None or row.position != move.then):
                before = row.position  # else it may be our write, whose answer was lost
            if before is not None and row is not None and row.position == move.then and row.actual_owner is None:
                return before
            row = self._refuse(move, row, self._checked.get(move.lease_key))
            if isinstance(self.ports.table.apply(seek(row, move.then)), Applied):
                assert before is not None
                return before
        moved = moved_already(tuple(self.before))
        raise SeekRefused(f"lease {move.lease_key} changed {TRIES} times while it was to be moved: try again. {moved}")

    def _refuse(self, move: LeaseMove, row: Lease | None, checked: Lease | None) -> Lease:
        """Returns the row if the move may be made on it. Raises SeekRefused."""
        why = why_not(move, row, checked, only_from_there=self.only_from_there)
        moved = moved_already(tuple(self.before))
        if why or row is None:
            raise SeekRefused(f"lease {move.lease_key} {why}. {moved} Make a new plan")
        if row.checkpoint_owner is not None:
            raise SeekRefused(f"lease {move.lease_key} is being handed over: try again in some seconds. {moved}")
        return row


def begun(snapshot: Snapshot, plan: SeekPlan) -> Snapshot:
    """Returns the snapshot that is kept before the first move. If the seek's process is killed, it takes all leases of
    the plan back to where they were.
    """
    return replaced(
        snapshot,
        positions={**snapshot.positions, **{move.lease_key: move.before for move in plan.moves}},
        moved=tuple(move.lease_key for move in plan.moves),
        then={move.lease_key: move.then for move in plan.moves},
        absent=tuple(move.lease_key for move in plan.moves if move.lease is None),
        is_begun=True,
    )


def undone_by(snapshot: Snapshot, seek: SeekRun) -> Snapshot:
    """Returns the snapshot with the positions that the seek has replaced; some had moved on since it was taken."""
    return replaced(
        snapshot,
        positions={**snapshot.positions, **seek.before},
        moved=tuple(seek.before),
        then={move.lease_key: move.then for move in seek.plan.moves if move.lease_key in seek.before},
        absent=tuple(
            move.lease_key for move in seek.plan.moves if move.lease is None and move.lease_key in seek.before
        ),
    )


def _text(position: Position) -> str:
    at = "" if position.start_at is None else f" from {position.start_at.isoformat()}"
    return f"{position.checkpoint}{at}"


NAMED = 10
"""How many leases a refusal names at most."""


def went_back(planned: Position, now: Position) -> bool:
    """Whether no fleet can have come from one position to the other. False in doubt: sentinels that a plan was made on
    are not compared, because only a reader knows where they begin.
    """
    return planned.checkpoint.is_sequence_number and now.checkpoint < planned.checkpoint


def why_not(move: LeaseMove, row: Lease | None, checked: Lease | None, *, only_from_there: bool) -> str:
    """Returns why the move may not be made on this row, as a sentence about its lease; empty: it may.

    row              as it is now; None: there is none, or it cannot be read
    checked          as it was when the whole plan was last checked; None: it is being checked now
    only_from_there  refuse progress too
    """
    assert move.lease is not None
    if row is None:
        return "was deleted, or its row cannot be read"
    if row.is_ended != move.lease.is_ended:
        return "ended or began after the plan was made"
    if only_from_there and row.position != move.before:
        return "moved on after the plan was made"
    return "" if row.position == move.then else _moved_by_another(move, row, checked)


def _moved_by_another(move: LeaseMove, row: Lease, checked: Lease | None) -> str:
    if went_back(move.before, row.position):
        return "was moved back after the plan was made"
    if checked is not None and row.lease_counter >= checked.lease_counter + SEEK_LEAP:
        return "was moved by another operator after the plan was made"
    return ""


def newer_seeks(kept: Iterable[Snapshot], known: Collection[str], moves: Sequence[LeaseMove]) -> tuple[Snapshot, ...]:
    """Returns the snapshots of seeks that have moved leases of this plan since it was made.

    kept   the snapshots that there are
    known  the names of those that there were when the plan was made
    """
    keys = {move.lease_key for move in moves}
    return tuple(each for each in kept if each.name not in known and not keys.isdisjoint(each.moved))


def moved_already(keys: Sequence[str]) -> str:
    """Lists what a seek had moved before it was refused."""
    if not keys:
        return "Nothing was moved."
    more = f" and {len(keys) - NAMED} more" if len(keys) > NAMED else ""
    moved = counted(len(keys), "lease was moved", "leases were moved")
    return f"{moved} already: {', '.join(keys[:NAMED])}{more}. `sublet undo` moves them back."
