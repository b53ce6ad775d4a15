"""Which leases to send workers for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sublet.protocol.lease import Lease


class Why(StrEnum):
    """Why a lease is acquired. STEAL alone takes it from an owner that is alive."""

    FREE = "free"
    EXPIRED = "expired"
    CHILD = "child"
    STEAL = "steal"
    CONTINUE = "continue"


@dataclass(frozen=True, slots=True)
class Choice:
    lease: Lease
    worker_id: str
    why: Why
