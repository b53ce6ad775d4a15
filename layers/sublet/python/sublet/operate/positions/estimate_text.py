"""A seek's estimate in words, for a terminal and a page."""

from __future__ import annotations

from collections.abc import Iterable

from sublet.decisions.counted import counted
from sublet.operate.rules.seek_estimate import NO_TIME, CatchUp, CountedBy, EstimateTotal, MoveEstimate, SeekEstimate
from sublet.operate.shown import age_text

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
