"""Asks what a seek's estimate needs: one page of each position, and the stream's figures in CloudWatch. Without those
figures, a page at both ends of each span counts what the seek repeats or skips.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from msgspec.structs import replace as replaced

from sublet.decisions.session.handled_position import HandledPosition
from sublet.decisions.session.read_position import IteratorType, ReadPosition
from sublet.decisions.streams.by_stream import by_stream
from sublet.engine.position_times import positions
from sublet.errors import CheckpointNotInStream, CheckRefused, ShardNotFound, TransientError
from sublet.operate.inspection import Inspection
from sublet.operate.rules.examination import Volume
from sublet.operate.rules.seek import BEGINNING, LeaseMove, MoveEffect, SeekPlan
from sublet.operate.rules.seek_estimate import (
    NO_TIME,
    CountedBy,
    MoveEstimate,
    Sample,
    SeekEstimate,
    SeekEvidence,
    estimate_of,
    has_parents,
    joined,
    records_in,
    second_start,
)
from sublet.ports import Ports
from sublet.protocol.lease import Lease, lease_key_of
from sublet.protocol.records import Page
from sublet.protocol.shard import Shard
from sublet.protocol.stream_info import StreamDescription
from sublet.protocol.stream_key import stream_key_of

LEAST_MEASURED = timedelta(minutes=15)
"""CloudWatch's figures have one value a minute."""


def estimated(
    plan: SeekPlan,
    shards: Sequence[Shard],
    stream: StreamDescription,
    moment: datetime | None,
    standing: Mapping[str, HandledPosition],
    ports: Ports,
    inspection: Inspection | None,
) -> SeekEstimate:
    """`moment`: the time that is sought, and `standing` what the shards answered at the leases' positions. Raises what
    Stream raises.
    """
    known = SeekEvidence(
        now=stream.at,
        oldest=max(stream.at - stream.retention, stream.identity.created_at),
        moment=moment,
        standing=standing,
        sought={} if moment is not None else _sought(plan, ports),
        begins=_begins(plan, shards, stream.at, ports),
    )
    if inspection is not None and plan.moves:
        known = replace(known, incoming=_incoming(plan, known, {shard.shard_id for shard in shards}, inspection))
    found = estimate_of(plan, shards, known)
    return found if found.counted_by is not None else with_samples(found, plan.moves, ports)


def estimated_by_stream(
    plan: SeekPlan,
    shards: Sequence[Shard],
    moment: datetime | None,
    standing: Mapping[str, HandledPosition],
    ports: Ports,
    inspection: Inspection | None,
) -> SeekEstimate:
    """Estimates for an application of several streams, each by its own retention and figures."""
    streams, listed = ports.streams, by_stream((shard.shard_id, shard) for shard in shards)
    assert streams is not None, "of an application of several streams"
    moves = by_stream((move.shard.shard_id, move) for move in plan.moves)
    found = [
        estimated(
            SeekPlan(tuple(moves[key])),
            listed[key],
            streams.of(key).describe(),
            moment,
            {name: at for name, at in standing.items() if stream_key_of(name) == key},
            ports,
            None if inspection is None else inspection.of_stream(key.stream, streams.arn(key)),
        )
        for key in moves
    ]
    return joined(found)


def _sought(plan: SeekPlan, ports: Ports) -> Mapping[str, HandledPosition]:
    moved = [
        Lease(move.lease_key, move.then.checkpoint) for move in plan.moves if move.then.checkpoint.is_sequence_number
    ]
    return positions(moved, ports)


def _begins(plan: SeekPlan, shards: Sequence[Shard], now: datetime, ports: Ports) -> Mapping[str, datetime]:
    """Returns when shards began: those that the plan reads from their beginning, and the children of those that open
    again, which began when these ended.
    """
    listed = {shard.shard_id for shard in shards}
    reopened = {move.shard.shard_id for move in plan.moves if move.effect is MoveEffect.REOPENS}
    to_beginning = {move.shard.shard_id for move in plan.moves if _goes_to_beginning(move)}
    asked = {
        lease_key_of(shard.shard_id): shard.shard_id
        for shard in shards
        if has_parents(shard, listed)
        and (shard.shard_id in to_beginning or not reopened.isdisjoint(shard.parent_shard_ids))
    }
    found = positions([Lease(key, BEGINNING.checkpoint) for key in asked], ports)
    return {asked[key]: now - at.lag for key, at in found.items() if at.lag}


def _goes_to_beginning(move: LeaseMove) -> bool:
    return BEGINNING in (move.then, move.before)


def _incoming(plan: SeekPlan, known: SeekEvidence, listed: Collection[str], inspection: Inspection) -> Volume | None:
    """Returns what arrived in the time that the plan is about. None if CloudWatch may not be asked, or has no
    figures.
    """
    answers = (*known.standing.values(), *known.sought.values())
    times = [at.handled_to or known.now - (at.lag or NO_TIME) for at in answers]
    times += [*known.begins.values(), *([known.moment] if known.moment else ())]
    from_oldest = [move for move in plan.moves if _goes_to_beginning(move) and not has_parents(move.shard, listed)]
    if not times or (from_oldest and known.moment is None):
        times.append(known.oldest)
    try:
        found = inspection.incoming(max(known.now - max(min(times), known.oldest), LEAST_MEASURED))
    except CheckRefused:
        return None
    return found if found.records_per_second else None


AT_ONCE = 10
LIMIT = 1000
"""How many records a page has at most: enough to count, and little of the shard's two MiB a second."""


def with_samples(estimate: SeekEstimate, moves: Sequence[LeaseMove], ports: Ports) -> SeekEstimate:
    """Returns the estimate with the records of each move. Makes two polls for each shard whose span is known. Raises
    what Stream raises, except transient errors.
    """
    slots = ports.tasks.slots(AT_ONCE)

    def count(move: LeaseMove, known: MoveEstimate) -> int | None:
        with slots:
            return _count(move.shard.shard_id, known, ports)

    asked = [
        (move.lease_key, ports.tasks.spawn(partial(count, move, estimate.moves[move.lease_key])))
        for move in moves
        if move.lease_key in estimate.moves
    ]
    counted = {key: replaced(estimate.moves[key], records=task.result()) for key, task in asked}
    is_counted = any(each.records is not None for each in counted.values())
    return replace(
        estimate,
        moves={**estimate.moves, **counted},
        counted_by=CountedBy.SAMPLE if is_counted else None,
    )


def _count(shard_id: str, known: MoveEstimate, ports: Ports) -> int | None:
    if known.since is None or known.until is None:
        return None
    return records_between(shard_id, known.since, known.until, ports)


def records_between(shard_id: str, since: datetime, until: datetime, ports: Ports) -> int | None:
    """About how many records of the shard arrived in this time, by a page at each end of it; None if the shard does not
    answer. Raises what Stream raises, except transient errors.
    """
    if since >= until:
        return 0
    first = _sample(shard_id, since, ports)
    if first is None or first.reaches(until):
        return records_in(since, until, first, None)
    second = _sample(shard_id, second_start(since, until), ports)
    return records_in(since, until, first, second)


def _sample(shard_id: str, start: datetime, ports: Ports) -> Sample | None:
    try:
        page = ports.stream.reader(shard_id, ReadPosition(IteratorType.AT_TIMESTAMP, at=start)).read(LIMIT)
    except (TransientError, ShardNotFound, CheckpointNotInStream):
        return None
    return Sample.of(start, page) if isinstance(page, Page) else None
