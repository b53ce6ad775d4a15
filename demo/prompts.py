"""Prompting the lease manager, so that nobody waits a minute for the schedule's next tick."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from demo.snapshot import Snapshot

PROMPT_EVERY = 2.0
"""Seconds between two prompts at least."""

TICK_WITHIN = 15.0
"""Seconds after which a prompt that no tick has come of is taken for lost."""


@dataclass(slots=True)
class Prompter:
    """Prompts when events wait in a shard that nobody has, and nothing is under way that would see to it."""

    lambda_: Any
    manager: str
    prompted_at: float = float("-inf")
    ticks_then: int = -1

    def look(self, snapshot: Snapshot, now: float) -> None:
        """`now` in seconds, of a clock that only goes forward."""
        if self._is_due(snapshot, now):
            prompt = {"prompt": {"because": "events are waiting in a shard that nobody has"}}
            self.lambda_.invoke(FunctionName=self.manager, InvocationType="Event", Payload=json.dumps(prompt))
            self.prompted_at, self.ticks_then = now, snapshot.ticks

    def _is_due(self, snapshot: Snapshot, now: float) -> bool:
        since = now - self.prompted_at
        is_answered = snapshot.ticks > self.ticks_then or since > TICK_WITHIN
        return (
            since > PROMPT_EVERY and is_answered and not is_starting(snapshot) and bool(snapshot.unattended())
        )


def is_starting(snapshot: Snapshot) -> bool:
    """Whether a window runs that has no lease yet: on a busy machine more prompts would only make more of those."""
    owned = sum(lease.owner is not None for lease in snapshot.leases.values())
    return snapshot.windows_running > owned
