"""A dispatcher that starts nothing: it keeps what it is given, to be looked at or run by a simulation."""

from __future__ import annotations

from collections.abc import Sequence

from sublet.decisions.packing import WorkerItem


class MemoryDispatcher:
    """The Dispatcher port. `items` are all that were dispatched and not yet taken, in order."""

    def __init__(self) -> None:
        self.items: list[WorkerItem] = []

    def dispatch(self, items: Sequence[WorkerItem]) -> None:
        self.items.extend(items)

    def take(self) -> list[WorkerItem]:
        """Hand over the waiting items, and forget them."""
        taken, self.items = self.items, []
        return taken
