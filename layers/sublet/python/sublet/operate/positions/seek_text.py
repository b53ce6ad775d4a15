"""A seek's plan and its estimate in words, for a terminal and a page."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sublet.command_line.terminal_text import printable
from sublet.decisions.plurals import counted
from sublet.operate.formatting import age_text
from sublet.operate.rules.seek_estimate import NO_TIME, CatchUp, CountedBy, EstimateTotal, MoveEstimate, SeekEstimate

if TYPE_CHECKING:
    from sublet.operate.positions.planned_seek import PlannedSeek
    from sublet.operate.rules.seek import LeaseMove
    from sublet.protocol.lease import Position

NAMED = 5
"""How many shards a line names at most."""


def estimate_lines(estimate: SeekEstimate) -> Iterable[str]:
    """Describes the effect of all moves together."""
    for verb, extent in (("repeats", estimate.repeats), ("skips", estimate.skips)):
        if extent.shards:
            yield _extent_text(verb, extent, estimate.counted_by)
    if estimate.trimmed:
        yield (
            f"past retention, so records are lost: {counted(len(estimate.trimmed), 'position')}, of "
            + ", ".join(estimate.trimmed[:NAMED])
            + (f" and {len(estimate.trimmed) - NAMED} more" if len(estimate.trimmed) > NAMED else "")
        )
    if any(move.catch_up is not None for move in estimate.moves.values()):
        yield _catch_up_text(estimate.catch_up)


def move_text(estimate: MoveEstimate | None) -> str:
    """Describes what one move repeats or skips, such as `3h, about 12,000 records`, or says which of the two is not
    known.
    """
    if estimate is None or (estimate.time is None and estimate.records is None):
        return "not known how much"
    time = "not known how long" if estimate.time is None else age_text(estimate.time)
    records = "not known how many records" if estimate.records is None else _about(estimate.records, "records")
    return f"{time}, {records}"


def stay_text(leases: int) -> str:
    return counted(leases, "stays where it is", "stay where they are")


def _extent_text(verb: str, extent: EstimateTotal, by: CountedBy | None) -> str:
    where = f"in {counted(extent.shards, 'shard')}"
    if extent.time is None:
        return f"{verb} records {where}: how many, and of how long, is not known"
    time = age_text(extent.time)
    if extent.records is None or by is None:
        return f"{verb} records of {time} {where}: how many is not known"
    unknown = f"; {extent.unknown} of these could not be estimated" if extent.unknown else ""
    return f"{verb} {_about(extent.records, 'records')} of {time} {where}, by {by}{unknown}"


def _about(records: int, unit: str) -> str:
    """Rounds to three digits, because an estimate is no more exact. 0 becomes "few", because there may be some."""
    digits = max(len(str(records)) - 3, 0)
    rounded = round(records, -digits)
    return f"few {unit}" if not records else f"about {rounded:,} {unit if rounded != 1 else unit[:-1]}"


def _catch_up_text(found: CatchUp) -> str:
    least = ""
    if found.at_least is not None:
        least = f"; at least {age_text(found.at_least)}, since Kinesis delivers 2 MiB a second of a shard"
    if found.is_never:
        return "does not catch up at today's pace: it falls back already"
    if found.within == NO_TIME:
        return "caught up at once"
    if found.within is not None:
        return f"caught up in about {age_text(found.within)} at today's pace"
    return f"time to catch up not known: no owner has lately reported how fast it catches up{least}"


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
