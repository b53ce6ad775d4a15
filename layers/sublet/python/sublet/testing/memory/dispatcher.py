"""A dispatcher that starts nothing: it keeps the items for a test to inspect, or for a simulation to run."""

from __future__ import annotations

from collections.abc import Sequence

from sublet.decisions.manager.packing import WorkerItem


class MemoryDispatcher:
    """The Dispatcher port. `items`: dispatched and not yet taken, in order."""

    def __init__(self) -> None:
        self.items: list[WorkerItem] = []

    def dispatch(self, items: Sequence[WorkerItem]) -> None:
        self.items.extend(items)

    def take(self) -> list[WorkerItem]:
        """Return the waiting items and forget them."""
        taken, self.items = self.items, []
        return taken
