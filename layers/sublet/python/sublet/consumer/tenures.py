"""How each lease that was acquired ended, told once."""

from __future__ import annotations

from collections.abc import Callable

from sublet.decisions.pull_events import Event, EventKind
from sublet.protocol.checkpoint import Checkpoint


class Tenures:
    """Safe for threads, of which one at a time has to do with a lease."""

    def __init__(self, tell: Callable[[Event], None]) -> None:
        self._tell = tell
        self._held: set[str] = set()

    def begin(self, shard_id: str, checkpoint: Checkpoint) -> None:
        self._held.add(shard_id)
        self._tell(Event(EventKind.LEASE_ACQUIRED, shard_id, f"from {checkpoint}"))

    def end(self, shard_id: str, how: EventKind, detail: str = "") -> None:
        """Unless it has ended already, or never began: a lease may be given back before anything is read."""
        if shard_id in self._held:
            self._held.discard(shard_id)
            self._tell(Event(how, shard_id, detail))
