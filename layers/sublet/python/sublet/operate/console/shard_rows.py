"""Selects, sorts and pages the shards that a page shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sublet.decisions.plurals import counted
from sublet.decisions.status.fleet_status import FleetStatus
from sublet.decisions.status.shard_status import NOTHING, WORST_FIRST, ShardStatus, worst_first
from sublet.decisions.status.status_rules import Status
from sublet.operate.formatting import age_text, failure_text
from sublet.operate.rules.shard_tree import shard_tree

ON_A_PAGE = 100
TREE = "tree"
"""The choice of an order that shows each shard under the shards that it came from, ended ones too."""

DEPTH_MAX = 12
UNHEALTHY = "unhealthy"
"""The choice that shows all shards that need attention, whatever their status."""


@dataclass(frozen=True, slots=True)
class ShardChoice:
    """Which shards to show. `text`: a part of the shard id or the owner. `status`: empty for all but ENDED. `page`:
    from 1.
    """

    text: str = ""
    status: str = ""
    sort: str = "worst"
    page: int = 1


class ShardRow(NamedTuple):
    """A shard's row. `depth`: how many ancestors are above it in the tree of reshards; 0 in any other order."""

    shard: ShardStatus
    depth: int = 0


@dataclass(frozen=True, slots=True)
class ShardPage:
    """The rows of one page. `found`: how many there are on all `pages` together."""

    rows: tuple[ShardRow, ...]
    found: int
    page: int
    pages: int


def statuses_of(status: FleetStatus) -> Mapping[Status, int]:
    """Returns how many shards have each status, worst first; only statuses that occur."""
    counts = status.statuses
    return {each: counts[each] for each in WORST_FIRST if each in counts}


def page_of(status: FleetStatus, choice: ShardChoice) -> ShardPage:
    if choice.sort == TREE:
        rows = [ShardRow(branch.shard, len(branch.is_last)) for branch in shard_tree(status.shards)]
        wanted = [row for row in rows if _is_wanted(row.shard, choice)]
    else:
        shards = [shard for shard in status.shards if _is_wanted(shard, choice)]
        wanted = [ShardRow(shard) for shard in _sorted(shards, choice.sort)]
    pages = max(1, -(-len(wanted) // ON_A_PAGE))
    page = min(max(choice.page, 1), pages)
    return ShardPage(tuple(wanted[(page - 1) * ON_A_PAGE : page * ON_A_PAGE]), len(wanted), page, pages)


def _is_wanted(shard: ShardStatus, choice: ShardChoice) -> bool:
    if choice.status == UNHEALTHY:
        has_status = shard.is_bad
    else:
        is_shown = choice.sort == TREE or shard.status is not Status.ENDED
        has_status = shard.status == choice.status if choice.status else is_shown
    text = choice.text.lower()
    return has_status and (not text or text in shard.shard_id.lower() or text in (shard.owner or "").lower())


def _sorted(shards: list[ShardStatus], by: str) -> list[ShardStatus]:
    """Sorts shards that are in the order of their ids."""
    match by:
        case "shard":
            return shards
        case "lag":
            return sorted(shards, key=lambda shard: -(shard.lag or NOTHING))
        case "owner":
            return sorted(shards, key=lambda shard: (shard.owner is None, shard.owner or ""))
    return worst_first(shards)


def why_text(shard: ShardStatus) -> str:
    """Returns why the shard has its status, and what holds it up."""
    parts = []
    if shard.lost is not None:
        parts.append(f"records of {age_text(shard.lost)} are past retention, unread")
    parts.append(shard.because.value)
    if shard.failing is not None:
        parts.append(failure_text(shard.failing))
    elif shard.attempts:
        parts.append(f"the handler has failed {counted(shard.attempts, 'time')}")
    if shard.crashes:
        parts.append(f"{counted(shard.crashes, 'crash', 'crashes')} of owners here")
    return "; ".join(parts)


def trend_text(trend: float | None) -> str:
    if trend is None or abs(trend) < 0.005:
        return ""
    return f"falls back {trend:.2f} s/s" if trend > 0 else f"catches up {-trend:.2f} s/s"
