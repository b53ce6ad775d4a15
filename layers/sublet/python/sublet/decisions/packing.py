"""Packing chosen leases into worker items: what one lease worker Lambda is started with."""

from __future__ import annotations

from dataclasses import dataclass

from sublet.decisions.choose_leases import Choice, Why


@dataclass(frozen=True, slots=True)
class Claim:
    """One lease a worker is sent for, fenced by what was seen: the acquire succeeds only if owner and counter still stand so."""

    lease_key: str
    lease_owner: str | None
    lease_counter: int
    why: Why


@dataclass(frozen=True, slots=True)
class WorkerItem:
    """One element of the state machine's Map.

    item_id        unique to this item; a second attempt at it (after a crash) may take over what the first one held
    worker_id      what `leaseOwner` becomes
    windows_left   continuous mode: windows that this execution may still run, this one included
    """

    item_id: str
    worker_id: str
    claims: tuple[Claim, ...]
    windows_left: int
