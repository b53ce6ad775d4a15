"""Keeps a list of what a run creates in the account, and removes it, also after Ctrl-C and if it was only half
created.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

Remove = Callable[[], None]
"""Removes one thing, and waits until it is gone. A missing thing is no error."""


@dataclass(slots=True)
class Belongings:
    """Registered before they are created, so that nothing exists unrecorded at any moment. Removed in reverse order."""

    report: Callable[[str], None]
    _things: list[tuple[str, Remove]] = field(default_factory=list)

    def enter(self, name: str, remove: Remove) -> None:
        self._things.append((name, remove))

    def remove_all(self) -> list[str]:
        """Returns what could not be removed, and why. Ctrl-C gives up the current thing and goes on with the next."""
        left = []
        while self._things:
            name, remove = self._things.pop()
            self.report(f"removing {name}")
            try:
                remove()
            except (Exception, KeyboardInterrupt) as problem:  # noqa: BLE001 - the others are removed all the same
                left.append(f"{name}: {type(problem).__name__}: {problem}")
        return left
