"""Prompts the lease manager, so that no shard waits a minute for the schedule's next tick."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from demo.snapshot import Snapshot

PROMPT_EVERY = 2.0
"""The least time between two prompts, in seconds."""

TICK_WITHIN = 15.0
"""Seconds after which a prompt without a tick counts as lost."""


@dataclass(slots=True)
class Prompter:
    """Prompts if events wait in a shard without an owner, and nothing in progress would change that."""

    lambda_: Any
    manager: str
    prompted_at: float = float("-inf")
    ticks_then: int = -1

    def look(self, snapshot: Snapshot, now: float) -> None:
        """`now` in seconds, from a monotonic clock."""
        if self._is_due(snapshot, now):
            prompt = {"prompt": {"because": "events are waiting in a shard without an owner"}}
            self.lambda_.invoke(FunctionName=self.manager, InvocationType="Event", Payload=json.dumps(prompt))
            self.prompted_at, self.ticks_then = now, snapshot.ticks

    def _is_due(self, snapshot: Snapshot, now: float) -> bool:
        since = now - self.prompted_at
        is_answered = snapshot.ticks > self.ticks_then or since > TICK_WITHIN
        return since > PROMPT_EVERY and is_answered and not is_starting(snapshot) and bool(snapshot.unattended())


def is_starting(snapshot: Snapshot) -> bool:
    """True if a window runs that has no lease yet: on a busy machine, more prompts would only add more of those."""
    owned = sum(lease.owner is not None for lease in snapshot.leases.values())
    return snapshot.windows_running > owned
