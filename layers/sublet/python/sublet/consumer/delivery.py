"""What a buffer hands out, and what it is asked with."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from sublet.consumer.shard_queue import ShardQueue
from sublet.consumer.turn import Delivery
from sublet.decisions.pull_request import NO_DEMAND, Demand, FetchProgress


class Waiter(Protocol):
    """Whoever is to be told that something has changed: once."""

    def set(self) -> None: ...


SetAside = Callable[[Delivery, str], bool]
"""Gives a record to the failure destination, with why; whether that has taken it."""


class LookAgain(NamedTuple):
    """Nothing for now: when the waiter is told, or at the moment (None: no moment)."""

    at: datetime | None


@dataclass(slots=True, eq=False)
class Pull:
    """A fetch or consume under way, as its buffer knows it. `acks`: a record is done when the next one is asked for."""

    wants: FetchProgress | Demand
    expires_at: datetime | None = None
    """By the steady clock: then nothing more is admitted for it, and it is over when nothing is left in the buffer."""
    acks: bool = False
    ahead: deque[Delivery] = field(default_factory=deque)
    """What may be taken next, without asking, while its turn lasts (see Turn)."""
    is_expired: bool = False
    is_draining: bool = False
    drains: dict[ShardQueue, int] | None = None
    """Up to which number of each shard, since it has been told to."""
    is_over: bool = False

    def demand(self) -> Demand:
        if self.is_expired or self.is_draining or self.is_over:
            return NO_DEMAND
        return self.wants.demand() if isinstance(self.wants, FetchProgress) else self.wants


@dataclass(frozen=True, slots=True)
class BufferLimits:
    """max_ack_pending  of one shard: admitted, and beyond what is finished without a gap
    max_bytes        of all that is not finished, over all shards
    ack_wait         how long a record may be out
    """

    max_ack_pending: int
    max_bytes: int
    ack_wait: timedelta
