"""Where a seek goes: to a time, a snapshot, a file, another application's positions, or back to before the last
seek.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta

from sublet.engine.position_times import positions
from sublet.errors import MalformedCheckpoint, SeekRefused
from sublet.operate.formatting import age_text, time_text
from sublet.operate.positions.find import place_of, places_of
from sublet.operate.positions.seek import check_stream
from sublet.operate.positions.seek_time import EARLIEST, SeekTime
from sublet.operate.positions.snapshots import AUTOMATIC_NAME, SCANNED_WITHIN, began_at
from sublet.operate.rules.seek import (
    BEGINNING,
    UNOPENED,
    check_parents,
    never_opened,
    positions_at,
    positions_like,
)
from sublet.ports import Ports, SnapshotStore
from sublet.protocol.checkpoint import TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import Lease, LeaseScan, Position, lease_key_of, shard_id_of
from sublet.protocol.shard import Shard, creation_order
from sublet.protocol.snapshot import Snapshot
from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.stream_key import stream_key_of
from sublet.reading.several_streams import named_shards, streams_read


@dataclass(frozen=True, slots=True)
class SeekTarget:
    """Where a seek goes.

    positions  by shard id
    what       the target in words, as logs and snapshots show it
    only       the ids of the shards to move; empty: all
    moment     the time, if the target is a time
    is_ours    True if the positions were found in this stream just now
    stream     otherwise, the stream in which they were found; None if that is not known
    """

    positions: Mapping[str, Position]
    what: str
    only: tuple[str, ...] = ()
    moment: datetime | None = None
    is_ours: bool = True
    stream: StreamIdentity | None = None


def at_place(place: SeekTime, shards: Sequence[Shard], only: Sequence[str], ports: Ports) -> SeekTarget:
    """Finds the place of a time. Reads each shard that is to move, unless the place is the earliest. Raises SeekRefused
    and what Stream raises.
    """
    only = named_shards(only, ports)
    moment = place.moment(ports.stream.service_time())
    if moment is None:
        return SeekTarget({shard.shard_id: BEGINNING for shard in shards}, f"seek to {EARLIEST}", tuple(only))
    named = set(only) or {shard.shard_id for shard in shards}
    asked = shards_asked(shards, only)
    found = places_of(asked, moment, ports)
    check_parents(asked, found, named)
    return SeekTarget(positions_at(asked, found), f"seek to {place.text}", tuple(only), moment)


def after_record(number: str, shards: Sequence[Shard], only: Sequence[str], ports: Ports) -> SeekTarget:
    """Goes on after one record of one shard. `number`: its sequence number, with `:` and its sub-sequence number if it
    is in an aggregate. Raises SeekRefused.
    """
    only = named_shards(only, ports)
    if len(only) != 1 or only[0] not in {shard.shard_id for shard in shards}:
        raise SeekRefused("a sequence number belongs to one shard: name the shard with --shard")
    sequence, _, sub = number.partition(":")
    try:
        checkpoint = Checkpoint.parse(sequence, int(sub or 0))
    except (MalformedCheckpoint, ValueError):
        checkpoint = TRIM_HORIZON
    if not checkpoint.is_sequence_number:
        raise SeekRefused(f"{number!r} is not a sequence number, or one with a sub-sequence number such as 495...:3")
    return SeekTarget({only[0]: Position(checkpoint)}, f"seek to after {number}", tuple(only), is_ours=False)


def shifted(
    by: timedelta, leases: Sequence[Lease], shards: Sequence[Shard], only: Sequence[str], ports: Ports
) -> SeekTarget:
    """Moves each unfinished shard by a span from when its last handled record arrived, back if it is negative, on to
    now at most. Shards at which nothing is handled yet stay. Raises SeekRefused where a shard began within the span,
    and what Stream raises.
    """
    only = named_shards(only, ports)
    meant = [lease for lease in leases if not lease.is_ended and (not only or lease.shard_id in only)]
    stood = {key: at.handled_to for key, at in positions(meant, ports).items() if at.handled_to is not None}
    listed = {shard.shard_id: shard for shard in shards}
    now = ports.stream.service_time()
    found: dict[str, Position] = {}
    for lease in meant:
        shard, at = listed.get(lease.shard_id), stood.get(lease.lease_key)
        if shard is None or at is None:
            continue
        moment = min(at + by, now)
        (found[shard.shard_id],) = positions_at([shard], {shard.shard_id: place_of(shard, moment, ports)}).values()
        if found[shard.shard_id] == BEGINNING and not shard.parent_shard_ids.isdisjoint(listed):
            raise SeekRefused(
                f"shard {shard.shard_id} began after {time_text(moment)}, and its parents have the records before: "
                "seek to a time"
            )
    if not found:
        raise SeekRefused(
            "no shard has a position with a known time, so --back and --forward cannot move any: seek to a time"
        )
    way = "back" if by < timedelta(0) else "on"
    return SeekTarget(found, f"seek {way} by {age_text(abs(by))}", tuple(found))


def shards_asked(shards: Sequence[Shard], only: Sequence[str]) -> list[Shard]:
    """Returns the shards in which `at_place` looks for a time: the named ones, or all, and their parents."""
    named = set(only) or {shard.shard_id for shard in shards}
    parents = {parent for shard in shards if shard.shard_id in named for parent in shard.parent_shard_ids}
    return [shard for shard in shards if shard.shard_id in named | parents]


def at_snapshot(
    name: str,
    application: str,
    snapshots: SnapshotStore,
    shards: Sequence[Shard],
    only: Sequence[str],
    ports: Ports,
) -> SeekTarget:
    """Goes to a snapshot's positions. Raises SeekRefused if there is no such snapshot, and what Stream raises."""
    kept = {each.name: each for each in snapshots.snapshots()}
    if name not in kept:
        raise SeekRefused(f"there is no snapshot {name} of {application}; there are: {', '.join(kept) or 'none'}")
    if kept[name].problem:
        raise SeekRefused(f"snapshot {name} of {application} cannot be read: {kept[name].problem}")
    return at_positions(kept[name], f"seek to snapshot {name}", shards, only, ports)


def at_positions(known: Snapshot, what: str, shards: Sequence[Shard], only: Sequence[str], ports: Ports) -> SeekTarget:
    """Goes to given positions. Reads the stream for shards that no reader had opened. Raises SeekRefused if all
    positions are of other streams, and what Stream raises.
    """
    read_at = known.read_at or known.taken_at - SCANNED_WITHIN
    only = named_shards(only, ports)
    absent = frozenset(map(shard_id_of, known.absent))
    positions_then = _opened(_by_shard(known.positions), read_at, shards, only, ports, absent)
    return SeekTarget(positions_then, what, tuple(only), stream=known.stream, is_ours=False)


def _opened(
    known: Mapping[str, Position],
    read_at: datetime,
    shards: Sequence[Shard],
    only: Sequence[str],
    ports: Ports,
    absent: AbstractSet[str] = frozenset(),
) -> dict[str, Position]:
    """Returns positions by shard id. A shard that no reader had opened goes to the last record before `read_at`: opened
    now, at LATEST, it would skip the records since then, and Java does not read a pin. Streams without a known position
    stay where they are. `absent`: shards that are known without having had a lease, so that none led from them to their
    children.
    """
    shards = _of_known_streams(known, shards, only)
    named = set(only) or {shard.shard_id for shard in shards}
    leased = {shard_id: at for shard_id, at in known.items() if shard_id not in absent}
    asked = [shard for shard in never_opened(shards, leased) if shard.shard_id in named]
    found = positions_at(asked, places_of(asked, read_at, ports))
    begun = {shard_id: BEGINNING if at == UNOPENED else at for shard_id, at in known.items()}
    return positions_like(shards, {**begun, **found})


def _of_known_streams(known: Mapping[str, Position], shards: Sequence[Shard], only: Sequence[str]) -> Sequence[Shard]:
    """Returns the shards of streams with a position. Raises SeekRefused if a named shard, or every shard, has none."""
    streams = {stream_key_of(shard_id) for shard_id in known}
    found = [shard for shard in shards if stream_key_of(shard.shard_id) in streams]
    missing = [name for name in only if known and stream_key_of(name) not in streams]
    if missing or (shards and known and not found):
        theirs = ", ".join(sorted({"an application of one stream" if key is None else str(key) for key in streams}))
        raise SeekRefused(
            f"nothing was moved: the positions are of {theirs}, and none is of {', '.join(missing) or 'these streams'}"
        )
    return found if known else shards


def at_application(
    name: str,
    theirs: LeaseScan,
    known: StreamIdentity | None,
    shards: Sequence[Shard],
    only: Sequence[str],
    ports: Ports,
) -> SeekTarget:
    """Goes to the positions of another application, which has the leases `theirs` on the stream `known`. Raises
    SeekRefused and StreamNotAdopted.
    """
    held = {lease.shard_id: lease.position for lease in theirs.leases}
    if not held:
        raise SeekRefused(f"application {name} has no leases of one stream")
    only = named_shards(only, ports)
    check_stream(name, known, theirs.leases, shards, ports)
    read_at = began_at(theirs, ports.clock.now())
    positions_now = _opened(held, read_at, shards, only, ports)
    return SeekTarget(positions_now, f"seek like {name}", tuple(only), stream=known, is_ours=False)


def before_the_last(application: str, snapshots: SnapshotStore, shards: Sequence[Shard], ports: Ports) -> SeekTarget:
    """Undoes the last seek. Raises SeekRefused if there is none, and what Stream raises."""
    kept = snapshots.snapshots()
    seeks = [each for each in kept if each.moved]
    unread = [each for each in kept if each.problem and AUTOMATIC_NAME.fullmatch(each.name)]
    if unread and (not seeks or unread[-1].name > seeks[-1].name):
        raise SeekRefused(f"the snapshot of the last seek, {unread[-1].name}, cannot be read: {unread[-1].problem}")
    if not seeks:
        raise SeekRefused(f"there is no seek of {application} to undo")
    last = seeks[-1]
    cut_short = ", which did not finish" if last.is_begun else ""
    what = f"undo {last.why}, made at {time_text(last.taken_at)}{cut_short}"
    moved = _with_what_was_absent(last, shards)
    if ports.streams is not None:
        moved = _of_streams(moved, what, ports)
    return at_positions(last, what, shards, moved, ports)


def _with_what_was_absent(last: Snapshot, shards: Sequence[Shard]) -> list[str]:
    """Returns the moved shards, and their descendants that had no lease: these have been created since, by the end of a
    shard that the seek opened, or soon will be.
    """
    moved = dict.fromkeys(map(shard_id_of, last.moved))
    for shard in sorted(shards, key=creation_order):
        if lease_key_of(shard.shard_id) not in last.positions and not moved.keys().isdisjoint(shard.parent_shard_ids):
            moved.setdefault(shard.shard_id)
    return list(moved)


def _of_streams(moved: Sequence[str], what: str, ports: Ports) -> list[str]:
    """Returns those of the moved shards that are of these ports' streams. Raises SeekRefused if there are none."""
    streams = streams_read(ports)
    found = [shard_id for shard_id in moved if stream_key_of(shard_id) in streams]
    if not found:
        raise SeekRefused(f"{what}: nothing to undo, since it moved no shard of {', '.join(map(str, streams))}")
    return found


def _by_shard(held: Mapping[str, Position]) -> dict[str, Position]:
    return {shard_id_of(lease_key): position for lease_key, position in held.items()}
