"""Shows a seek's plan in a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sublet.command_line.harmless import printable
from sublet.operate.positions.estimate_text import estimate_lines, move_text, stay_text
from sublet.operate.shown import age_text

if TYPE_CHECKING:
    from sublet.operate.positions.planned_seek import PlannedSeek
    from sublet.operate.rules.seek import LeaseMove
    from sublet.operate.rules.seek_estimate import EstimateTotal, SeekEstimate
    from sublet.protocol.lease import Position

SHARD_WIDTH, EXTENT_WIDTH = 22, 27


def plan_lines(found: PlannedSeek, now: datetime) -> Iterable[str]:
    """Yields a line for each shard that moves, how many shards stay, and the effect of all moves together."""
    plan, in_time = found.plan, found.in_time
    yield printable(found.what)
    width = max([SHARD_WIDTH, *(len(move.shard.shard_id) for move in plan.moves)])
    extents = [move_text(found.estimate.moves.get(move.lease_key)) for move in plan.moves]
    wide = max([EXTENT_WIDTH, *map(len, extents)])
    if plan.moves:
        yield f"{'shard':<{width}} {'effect':<8} {'extent':<{wide}} {'now':<30} {'then':<30} owner"
    for move, extent in zip(plan.moves, extents, strict=True):
        owner = None if move.lease is None else move.lease.actual_owner
        before = "no lease" if move.lease is None else _where(move.lease.position)
        known = in_time.get(move.lease_key)
        if known is not None and known.handled_to is not None:
            before = f"{before}, {age_text(now - known.handled_to)} old"
        yield (
            f"{move.shard.shard_id:<{width}} {move.effect:<8} {extent:<{wide}} {before:<30} {_where(move.then):<30} "
            f"{printable(owner or '-')}"
        )
    if plan.stay:
        yield stay_text(len(plan.stay))
    if not plan.moves:
        yield "nothing to move"
    yield from estimate_lines(found.estimate)


def plan_json(found: PlannedSeek) -> dict[str, object]:
    """Returns the plan as JSON, with null for estimates that are not known."""

    def as_json(move: LeaseMove) -> dict[str, object]:
        known = found.in_time.get(move.lease_key)
        estimate = found.estimate.moves.get(move.lease_key)
        handled_to = None if known is None or known.handled_to is None else known.handled_to.isoformat()
        return {
            "shard": move.shard.shard_id,
            "effect": move.effect.value,
            "now": None if move.lease is None else str(move.lease.checkpoint),
            "handled_to": handled_to,
            "then": str(move.then.checkpoint),
            "owner": None if move.lease is None else move.lease.actual_owner,
            "seconds": None if estimate is None else _seconds(estimate.time),
            "records": None if estimate is None else estimate.records,
        }

    return {
        "seek": found.what,
        "moves": [as_json(move) for move in found.plan.moves],
        "stay": len(found.plan.stay),
        "estimate": _estimate_json(found.estimate),
    }


def _estimate_json(estimate: SeekEstimate) -> dict[str, object]:
    catch_up = estimate.catch_up
    return {
        "repeats": _extent_json(estimate.repeats),
        "skips": _extent_json(estimate.skips),
        "records_by": estimate.counted_by,
        "past_retention": list(estimate.trimmed),
        "catch_up_seconds": _seconds(catch_up.within),
        "catch_up_seconds_at_least": _seconds(catch_up.at_least),
        "falls_back": catch_up.is_never,
    }


def _extent_json(extent: EstimateTotal) -> dict[str, object]:
    """`unknown`: the number of shards of which nothing is known."""
    return {
        "shards": extent.shards,
        "seconds": _seconds(extent.time),
        "records": extent.records,
        "unknown": extent.unknown,
    }


def _seconds(time: timedelta | None) -> int | None:
    return None if time is None else round(time.total_seconds())


def _where(position: Position) -> str:
    """Shortens a sequence number to its end, because the numbers of one shard differ only there."""
    text = str(position.checkpoint)
    return text if len(text) <= 20 else f"…{text[-18:]}"
