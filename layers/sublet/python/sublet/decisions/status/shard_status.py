"""The status of one shard: its status, its lag and its forecast, who owns its lease, and what holds it up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from sublet.decisions.status.lease_history import History
from sublet.decisions.status.status_rules import Status, StatusReason
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.control import Pause
from sublet.protocol.handler_failure import HandlerFailure
from sublet.protocol.shard import HashKeyRange
from sublet.protocol.stream_key import stream_key_of

BAD_STATUSES = (Status.STOPPED, Status.FAILING, Status.STALLED, Status.REWOUND, Status.BEHIND)
WORST_FIRST = (*BAD_STATUSES, Status.UNKNOWN, Status.PAUSED, Status.WAITING, Status.OK, Status.ENDED)
NOTHING = timedelta(0)


class ShardState(StrEnum):
    HELD = "held"
    MOVING = "moving"
    """Its owner drains it for another worker (KCL 3.x)."""
    UNOWNED = "unowned"
    """Released or never held: the next tick sends a worker if one is wanted."""
    EXPIRED = "expired"
    """Its owner is gone and did not release it."""
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """One shard and its lease.

    since               when the status began to be true, or was first observed; None if neither means anything
    lag                 how long the first record after the checkpoint has waited; zero if none waits, None if not
                        known. At most the retention: what is older is `lost`
    lag_is_at_least     whether the lag is a lower bound: a record has waited for that long, and perhaps others for
                        longer
    trend               by how many seconds the lag grows each second: 0.3 falls back, -0.3 catches up; None if not
                        known
    caught_up_in        when nothing will wait if it goes on like this; None if the lag does not fall
    lost                the span of time whose records were trimmed before they were handled; None if no loss is known
    owner               the worker id that consumes it; None if there is none
    group               the owner's group of workers
    idle                how long ago the lease was last written to, as far as its row or a lease manager knows; None if
                        not known
    crashes             owners that have died since the last checkpoint
    attempts            failed calls of the handler with what follows the checkpoint
    failing             the handler's last error and its start time, as its owner last reported; None if it does
                        not
    kbps                how fast it is read, in KB a second, by its owner's last report; None without a recent report,
                        or if no worker reads it
    records_per_second  by the same report
    moved_at            when it was first seen with another owner; None if that was not recent
    checkpoint          how far it is handled; `start_at`: the time that a checkpoint without a sequence number starts
                        at
    handled_to          when the last handled record arrived; None if not known
    caught_up_at        a time at which the shard held nothing after the checkpoint; None if not known
    parents, children   shard ids, by its row
    waits_for           its parents that are not finished
    pause               by an operator; None if there is none
    history             its last observations, oldest first; their positions can only be compared with each other
    """

    shard_id: str
    status: Status
    because: StatusReason
    since: datetime | None
    lag: timedelta | None
    trend: float | None
    caught_up_in: timedelta | None
    lost: timedelta | None
    state: ShardState
    owner: str | None
    group: str | None
    idle: timedelta | None
    crashes: int
    attempts: int
    failing: HandlerFailure | None
    kbps: float | None
    records_per_second: float | None
    moved_at: datetime | None
    checkpoint: Checkpoint
    start_at: datetime | None
    handled_to: datetime | None
    caught_up_at: datetime | None
    hash_key_range: HashKeyRange | None
    parents: frozenset[str]
    children: frozenset[str]
    waits_for: frozenset[str]
    pause: Pause | None
    history: History = ()
    lag_is_at_least: bool = False

    @property
    def stream(self) -> str | None:
        """The name of its stream; None in an application of one stream."""
        key = stream_key_of(self.shard_id)
        return None if key is None else key.stream

    @property
    def is_ended(self) -> bool:
        return self.state is ShardState.ENDED

    @property
    def is_owner_gone(self) -> bool:
        """Whether its owner is known not to have written for longer than failover_time."""
        return self.state is ShardState.EXPIRED

    @property
    def consumer(self) -> str | None:
        """Its owner, if that worker is alive."""
        return self.owner if self.state in (ShardState.HELD, ShardState.MOVING) else None

    @property
    def is_bad(self) -> bool:
        """Whether an operator should look at it. A shard that has lost records is bad whatever its status."""
        return self.status in BAD_STATUSES or self.lost is not None


def worst_first(shards: Iterable[ShardStatus]) -> list[ShardStatus]:
    """Sorts by status, then by lag."""
    return sorted(shards, key=lambda shard: (WORST_FIRST.index(shard.status), -(shard.lag or NOTHING)))
