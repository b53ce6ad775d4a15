"""How a process is, for whoever may replace it or send it away: judged from what it tells of itself."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sublet.decisions.announcing import tick_interval
from sublet.decisions.process_end import Ending
from sublet.settings import Settings

LOOP_HANGS_AFTER = timedelta(minutes=5)
"""And not before three ticks were due: a look that AWS does not answer is given up much sooner, by its client."""

STALLS_AFTER = timedelta(minutes=5)
"""A shard with records to come that stands still for so long, or a call of the handler that lasts so long."""


class ShardState(NamedTuple):
    """stands_still   how long its handler has finished nothing though there was something
    call           the handler's function that is being called, and for how long
    """

    shard_id: str
    stands_still: timedelta
    call: str | None
    call_lasts: timedelta
    millis_behind_latest: int | None

    @property
    def stalls(self) -> bool:
        return max(self.stands_still, self.call_lasts) >= STALLS_AFTER


class ProcessState(NamedTuple):
    """Moments by the steady clock. `tried_at`: when it began, or last ended a look, whatever came of it; `looked_at`: when one
    last succeeded.
    """

    tried_at: datetime
    looked_at: datetime | None
    is_leaving: bool
    ending: Ending | None
    shards: Sequence[ShardState]
    """Whose leases it holds."""
    hung: Sequence[ShardState] = ()
    """Calls that were given up, whose leases it holds no more, and that have not come back."""


class ProcessReport(NamedTuple):
    """is_live    it need not be replaced: it goes on by itself, whatever AWS or its handler do to it
    is_ready   it takes its share of the shards; another may go
    """

    is_live: bool
    is_ready: bool
    because: str
    shards: int
    stalls: tuple[ShardState, ...]


def process_report(state: ProcessState, now: datetime, settings: Settings) -> ProcessReport:
    hangs_after = max(LOOP_HANGS_AFTER, 3 * tick_interval(settings))
    is_hung = now - state.tried_at > hangs_after
    stalls = tuple(sorted([*(shard for shard in state.shards if shard.stalls), *state.hung], key=_by_shard))
    is_live = state.ending is None and not is_hung
    is_ready = is_live and state.looked_at is not None and not state.is_leaving
    return ProcessReport(is_live, is_ready, _because(state, is_hung), len(state.shards), stalls)


def _by_shard(shard: ShardState) -> tuple[str, timedelta]:
    return shard.shard_id, -shard.call_lasts


def _because(state: ProcessState, is_hung: bool) -> str:
    if state.ending is not None:
        return state.ending.value
    if is_hung:
        return "its look at the leases does not come back"
    if state.is_leaving:
        return "it was told to end, and gives its leases back"
    return "it has not looked at the leases yet" if state.looked_at is None else "it looks at the leases"
