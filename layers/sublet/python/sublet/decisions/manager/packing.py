"""Packs chosen leases into worker items: the input of one lease worker Lambda."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from sublet.decisions.manager.choose_leases import ClaimReason, LeaseChoice
from sublet.decisions.session.crash_caution import CrashCaution, caution
from sublet.decisions.time_and_chance import Chance
from sublet.settings import Settings

MAP_ITEMS_MAX = 40
"""Step Functions runs at most 40 items of an inline Map at a time. A 41st item would wait for a whole window."""

_ITEM_ID_BITS = 64


@dataclass(frozen=True, slots=True)
class LeaseClaim:
    """One lease that a worker is sent for. The acquire succeeds only if owner and counter are still as seen."""

    lease_key: str
    lease_owner: str | None
    lease_counter: int
    why: ClaimReason


@dataclass(frozen=True, slots=True)
class WorkerItem:
    """One element of the state machine's Map.

    item_id        unique to this item; its second attempt (after a crash) may take over what the first one held
    worker_id      the future `leaseOwner`
    windows_left   continuous mode: windows that this execution may still run, this one included
    dispatched_at  when it was packed; None in an item of version 0.1
    leases_max     how many leases its worker may hold at once, if children of ended shards could exceed
                   `max_leases_for_worker`; None: only `leases_per_worker` limits it
    auto_seen_at   when the stream was last seen to distribute records itself, by Kinesis' clock
    """

    item_id: str
    worker_id: str
    claims: tuple[LeaseClaim, ...]
    windows_left: int
    dispatched_at: datetime | None = None
    leases_max: int | None = None
    auto_seen_at: datetime | None = None


def pack(
    choices: Sequence[LeaseChoice],
    settings: Settings,
    chance: Chance,
    now: datetime | None = None,
    *,
    may_grow: bool = True,
    auto_seen_at: datetime | None = None,
) -> tuple[WorkerItem, ...]:
    """Makes as few worker items as `leases_per_worker` allows, equally full: 11 leases become 6 and 5, not 10 and 1.
    Choices keep their order of urgency; worker ids come in the order of their first choice. Unless an item `may_grow`,
    its worker never holds more leases at once than it was sent for: when a shard ends, the other leases of its worker
    id are not counted.
    """
    by_worker: dict[str, list[LeaseChoice]] = {}
    for choice in choices:
        by_worker.setdefault(choice.worker_id, []).append(choice)
    return tuple(
        WorkerItem(
            f"{chance.getrandbits(_ITEM_ID_BITS):016x}",
            worker_id,
            tuple(_claim(choice) for choice in together),
            settings.windows_per_execution,
            now,
            None if may_grow else len(together),
            auto_seen_at,
        )
        for worker_id, of_worker in by_worker.items()
        for together in _groups(of_worker, settings.leases_per_worker)
    )


def executions(items: Sequence[WorkerItem]) -> list[list[WorkerItem]]:
    """The items of each execution to start, in order; at most MAP_ITEMS_MAX each."""
    return [list(items[first : first + MAP_ITEMS_MAX]) for first in range(0, len(items), MAP_ITEMS_MAX)]


def _claim(choice: LeaseChoice) -> LeaseClaim:
    return LeaseClaim(*choice.lease.fence, why=choice.why)


def _groups(choices: Sequence[LeaseChoice], at_most: int) -> list[tuple[LeaseChoice, ...]]:
    """Leases that have to be tried alone get an item each; the others share as few items as possible."""
    alone = [choice for choice in choices if caution(choice.lease) >= CrashCaution.ALONE]
    together = [choice for choice in choices if caution(choice.lease) < CrashCaution.ALONE]
    return [*(_evenly(together, at_most) if together else ()), *((choice,) for choice in alone)]


def _evenly(choices: Sequence[LeaseChoice], at_most: int) -> list[tuple[LeaseChoice, ...]]:
    count = -(-len(choices) // at_most)
    size, larger = divmod(len(choices), count)
    starts = [n * size + min(n, larger) for n in range(count + 1)]
    return [tuple(choices[start:end]) for start, end in pairwise(starts)]
