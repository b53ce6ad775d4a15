"""A seek's plan for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from sublet.cli.shown import age_text, printable

if TYPE_CHECKING:
    from sublet.decisions.handled_position import HandledPosition
    from sublet.decisions.seek import Move, SeekPlan
    from sublet.protocol.lease import Position


def plan_lines(plan: SeekPlan, in_time: Mapping[str, HandledPosition], now: datetime) -> Iterable[str]:
    """A line for each shard that moves, and how many stay."""
    if plan.moves:
        yield f"{'shard':<22} {'effect':<8} {'now':<30} {'then':<30} owner"
    for move in plan.moves:
        owner = None if move.lease is None else move.lease.actual_owner
        before = "no lease" if move.lease is None else _where(move.lease.position)
        known = in_time.get(move.lease_key)
        if known is not None and known.handled_to is not None:
            before = f"{before}, {age_text(now - known.handled_to)} old"
        yield f"{move.shard.shard_id:<22} {move.effect:<8} {before:<30} {_where(move.then):<30} {printable(owner or '-')}"
    if plan.stay:
        yield f"{len(plan.stay)} stay where they are"
    if not plan.moves:
        yield "nothing to move"


def plan_json(plan: SeekPlan, in_time: Mapping[str, HandledPosition], what: str) -> dict[str, object]:
    def as_json(move: Move) -> dict[str, object]:
        known = in_time.get(move.lease_key)
        handled_to = None if known is None or known.handled_to is None else known.handled_to.isoformat()
        return {
            "shard": move.shard.shard_id,
            "effect": move.effect.value,
            "now": None if move.lease is None else str(move.lease.checkpoint),
            "handled_to": handled_to,
            "then": str(move.then.checkpoint),
            "owner": None if move.lease is None else move.lease.actual_owner,
        }

    return {"seek": what, "moves": [as_json(move) for move in plan.moves], "stay": len(plan.stay)}


def _where(position: Position) -> str:
    """Of a sequence number the end, in which those of one shard differ."""
    text = str(position.checkpoint)
    return text if len(text) <= 20 else f"…{text[-18:]}"
