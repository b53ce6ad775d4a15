"""Counts what a seek repeats or skips, by a page at both ends of each span, where CloudWatch does not say it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from msgspec.structs import replace as replaced

from sublet.decisions.session.read_position import IteratorType, ReadPosition
from sublet.errors import CheckpointNotInStream, ShardNotFound, TransientError
from sublet.operate.rules.seek import LeaseMove
from sublet.operate.rules.seek_estimate import CountedBy, MoveEstimate, SeekEstimate
from sublet.operate.rules.seek_sample import Sample, records_in, second_start
from sublet.ports import Ports
from sublet.protocol.records import Page

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
    if known.since >= known.until:
        return 0
    first = _sample(shard_id, known.since, ports)
    if first is None or first.reaches(known.until):
        return records_in(known.since, known.until, first, None)
    second = _sample(shard_id, second_start(known.since, known.until), ports)
    return records_in(known.since, known.until, first, second)


def _sample(shard_id: str, start: datetime, ports: Ports) -> Sample | None:
    try:
        page = ports.stream.reader(shard_id, ReadPosition(IteratorType.AT_TIMESTAMP, at=start)).read(LIMIT)
    except (TransientError, ShardNotFound, CheckpointNotInStream):
        return None
    return Sample.of(start, page) if isinstance(page, Page) else None
