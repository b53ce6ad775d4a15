"""What a lease's owner also notes in the row when it writes: its throughput, what is finished beyond the checkpoint,
how its handler fails, and how far the shard is behind. It notes as much as the row has room for, because writing a row
of more than a kilobyte costs twice as much.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from sublet.protocol import lease_attributes as attributes
from sublet.protocol.conditions import Row, all_of
from sublet.protocol.finished_ahead import FinishedAhead
from sublet.protocol.handler_failure import HandlerFailure
from sublet.protocol.lag_history import LagSeen
from sublet.protocol.lag_report import LagReport
from sublet.protocol.lease import AttributeValue, Lease, Position
from sublet.protocol.lease_attributes import attempts_after
from sublet.protocol.lease_row import encode_row
from sublet.protocol.lease_writes import ONE, LeaseWrite
from sublet.protocol.stream_key import is_of_several
from sublet.protocol.write_clauses import position_stands

LAG_COLUMNS = (attributes.LAG, attributes.SEEN)
GIVE_WAY = (*LAG_COLUMNS, attributes.FAILING)
"""These attributes give way to what is finished ahead, because they only inform."""

LAG_SEEN_FEWER = 5
SHORT_NAMES, SHORT_NUMBER, FAMILY = 128, 60, 4
"""Characters of a row's owners and holder, digits of its checkpoint, and two parents and two children. See
`_is_short`.
"""


def with_throughput(write: LeaseWrite, kib_per_second: float) -> LeaseWrite:
    """Adds the lease's throughput, for a KCL 3.x leader, to the write."""
    measured = {attributes.THROUGHPUT: attributes.throughput(kib_per_second)}
    return write.noting({**write.sets, **measured}, write.removes)


def with_failure(write: LeaseWrite, lease: Lease, failing: HandlerFailure | None) -> LeaseWrite:
    """The same write by an owner, which also says how the handler fails with what follows the position, if the row has
    room for it; otherwise it removes the old note. This note comes before the lag, and after what is finished ahead.
    """
    if failing is not None:
        position = write.moves_to or lease.position
        said = {attributes.FAILING: attributes.failing_with(failing, position.checkpoint)}
        stays = tuple(name for name in write.removes if name != attributes.FAILING)
        noted = replace(write, sets={**write.sets, **said}, removes=stays)
        if attributes.bytes_of(_without(_row_after(noted, lease), LAG_COLUMNS)) <= attributes.ROW_BYTES_MAX:
            return noted
    if failing is None and lease.failing is None:
        return write
    return replace(write, removes=_with_names(write.removes, (attributes.FAILING,)))


def with_unanswered(write: LeaseWrite, lease: Lease, since: datetime | None) -> LeaseWrite:
    """The same write by an owner, which also says since when its reads get no answer, if the row has room for it."""
    if since is None:
        if lease.unanswered_since is None:
            return write
        return write.noting(write.sets, _with_names(write.removes, (attributes.UNANSWERED,)))
    said = {attributes.UNANSWERED: attributes.unanswered(since, lease.lease_counter + ONE)}
    noted = write.noting({**write.sets, **said}, write.removes)
    return noted if attributes.bytes_of(_row_after(noted, lease)) <= attributes.ROW_BYTES_MAX else write


def with_lag(
    write: LeaseWrite, lease: Lease, report: LagReport | None, history: tuple[LagSeen, ...] = ()
) -> LeaseWrite:
    """The same write by an owner, which also says how far its shard is behind, and was; as much as the row has room
    for. What there is no room for is removed: a row of more than a kilobyte costs two writes.
    """
    if report is None:
        return write
    position = write.moves_to or lease.position
    said = {attributes.LAG: attributes.lag_reported(report, position.checkpoint)}
    if _is_short(write, lease):
        return _saying(write, lease, said, history)
    for some in (history, history[-LAG_SEEN_FEWER:], ()):
        reported = _saying(write, lease, said, some)
        if attributes.bytes_of(_row_after(reported, lease)) <= attributes.ROW_BYTES_MAX:
            return reported
    return write.noting(write.sets, _with_names(write.removes, LAG_COLUMNS))


def _saying(
    write: LeaseWrite, lease: Lease, said: Mapping[str, AttributeValue], history: tuple[LagSeen, ...]
) -> LeaseWrite:
    if history and history != lease.lag_history:
        said = {**said, attributes.SEEN: attributes.seen_before(history)}
    removes = write.removes
    if not said.keys().isdisjoint(removes):
        removes = tuple(name for name in removes if name not in said)
    if lease.lag_history and not history:
        removes = _with_names(removes, (attributes.SEEN,))
    return write.noting({**write.sets, **said}, removes)


def _with_names(removes: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    return (*removes, *(name for name in names if name not in removes))


def _is_short(write: LeaseWrite, lease: Lease) -> bool:
    """Whether the row has room in any case. So the heartbeats of a thousand idle shards need not encode each row to
    find out.
    """
    long = (
        lease.other,
        lease.pending_checkpoint,
        lease.tried,
        lease.attempts,
        lease.noted_ahead,
        lease.failing,
    )
    digits = len(lease.checkpoint.sequence_number)
    names = len(lease.lease_owner or "") + len(lease.holder or "") + len(lease.checkpoint_owner or "")
    shards = len(lease.parent_shard_ids) + len(lease.child_shard_ids)
    is_noted = attributes.ATTEMPTS in write.sets or attributes.FAILING in write.sets
    is_long = any(long) or is_noted or is_of_several(lease.lease_key)
    return not is_long and digits <= SHORT_NUMBER and names <= SHORT_NAMES and shards <= FAMILY


def with_ahead(write: LeaseWrite, lease: Lease, ahead: FinishedAhead | None) -> LeaseWrite:
    """The same write by an owner, which also notes what is finished beyond the new position, as much as the row has
    room for, or removes the note.

    This is noted only if the position is as the owner last knew it: after another writer has moved it, records have to
    be handled again.
    """
    position = write.moves_to or lease.position
    known = None if ahead is None else ahead.beyond(position.checkpoint)
    for some in () if known is None else (known, *known.fewer()):
        noted = _noted(write, lease, some, position)
        row = _without(_row_after(noted, lease), GIVE_WAY)
        if attributes.bytes_of(row) <= attributes.ROW_BYTES_MAX:
            return noted
    return write.noting(write.sets, _with_names(write.removes, (attributes.AHEAD,)))


def _noted(write: LeaseWrite, lease: Lease, ahead: FinishedAhead, position: Position) -> LeaseWrite:
    attempts, tried = (0, None) if write.moves_to else (lease.attempts, lease.tried)
    beside = {attributes.ATTEMPTS: attempts_after(position.checkpoint, attempts, tried)}
    noted = {attributes.AHEAD: attributes.finished_beyond(ahead, lease.lease_counter + ONE, position)}
    stands = position_stands(lease)
    conditions = write.condition.conditions
    return replace(
        write,
        condition=write.condition if stands in conditions else all_of(*conditions, stands),
        sets={**beside, **write.sets, **noted},
        removes=tuple(name for name in write.removes if name not in (attributes.AHEAD, attributes.ATTEMPTS)),
    )


def _without(row: Row, names: tuple[str, ...]) -> Row:
    return {name: value for name, value in row.items() if name not in names}


def _row_after(write: LeaseWrite, lease: Lease) -> Row:
    return {name: value for name, value in {**encode_row(lease), **write.sets}.items() if name not in write.removes}
