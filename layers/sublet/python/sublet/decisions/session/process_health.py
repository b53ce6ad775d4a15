"""Whether a process is live and ready, judged from its own state."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sublet.decisions.manager.joins_and_drains import tick_interval
from sublet.decisions.session.process_end import ProcessEndReason
from sublet.settings import Settings

LOOP_HANGS_AFTER = timedelta(minutes=5)
"""How long the loop may stand still, but at least until three ticks were due. The client gives up a scan that AWS does
not answer much sooner.
"""

STALLS_AFTER = timedelta(minutes=5)
"""How long a shard with records to come may stand still, or a handler call may last."""


class Outage(NamedTuple):
    """The reads of a shard get no answer. `problem`: what was met, in its own words; `since`: by the steady clock, and
    `began_at`: the same moment by the wall clock, in whole milliseconds.
    """

    problem: str
    since: datetime
    began_at: datetime


class ShardReport(NamedTuple):
    """What a process knows about one shard.

    stands_still          how long its handler has finished nothing although records were there
    call                  the handler function that is being called
    call_lasts            how long this call has lasted
    millis_behind_latest  of the last page; None before it
    unanswered            why its reads get no answer; None if they do
    unanswered_for        for how long
    """

    shard_id: str
    stands_still: timedelta
    call: str | None
    call_lasts: timedelta
    millis_behind_latest: int | None
    unanswered: str | None = None
    unanswered_for: timedelta = timedelta(0)

    @property
    def stalls(self) -> bool:
        return max(self.stands_still, self.call_lasts) >= STALLS_AFTER


class ProcessState(NamedTuple):
    """Times are by the steady clock. `tried_at`: the start, or the end of the last scan, successful or not;
    `looked_at`: the end of the last successful scan.
    """

    tried_at: datetime
    looked_at: datetime | None
    is_leaving: bool
    ending: ProcessEndReason | None
    shards: Sequence[ShardReport]
    """The shards of the leases that it holds."""
    hung: Sequence[ShardReport] = ()
    """Abandoned calls that have not returned, whose leases it no longer holds."""


class ProcessReport(NamedTuple):
    """The answer to a health check.

    is_live   the process need not be replaced: it recovers by itself, whatever AWS or its handler do
    is_ready  the process takes its share of the shards, so another one may stop
    because   the reason
    shards    how many leases it holds
    stalls    shards that stand still and calls that last too long
    unread    shards whose reads get no answer
    """

    is_live: bool
    is_ready: bool
    because: str
    shards: int
    stalls: tuple[ShardReport, ...]
    unread: tuple[ShardReport, ...] = ()


def process_report(state: ProcessState, now: datetime, settings: Settings) -> ProcessReport:
    hangs_after = max(LOOP_HANGS_AFTER, 3 * tick_interval(settings))
    is_hung = now - state.tried_at > hangs_after
    stalls = tuple(sorted([*(shard for shard in state.shards if shard.stalls), *state.hung], key=_by_shard))
    is_live = state.ending is None and not is_hung
    is_ready = is_live and state.looked_at is not None and not state.is_leaving
    unread = tuple(sorted((shard for shard in state.shards if shard.unanswered is not None), key=_by_shard))
    return ProcessReport(is_live, is_ready, _because(state, is_hung), len(state.shards), stalls, unread)


def _by_shard(shard: ShardReport) -> tuple[str, timedelta]:
    return shard.shard_id, -shard.call_lasts


def _because(state: ProcessState, is_hung: bool) -> str:
    if state.ending is not None:
        return state.ending.value
    if is_hung:
        return "its scan of the leases hangs"
    if state.is_leaving:
        return "it is ending and releases its leases"
    return "it has not scanned the leases yet" if state.looked_at is None else "it scans the leases"
