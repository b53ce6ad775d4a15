"""What a run makes in the account, and its removal: also after Ctrl-C, and also of what was half made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

Remove = Callable[[], None]
"""Removes one thing, and waits until it is gone. A thing that is not there is no error."""


@dataclass(slots=True)
class Belongings:
    """Entered before they are made, so that no moment is left in which a thing is there and unknown. Removed last first."""

    report: Callable[[str], None]
    _things: list[tuple[str, Remove]] = field(default_factory=list)

    def enter(self, name: str, remove: Remove) -> None:
        self._things.append((name, remove))

    def remove_all(self) -> list[str]:
        """What could not be removed, with why. A Ctrl-C here gives up the thing at hand and goes on with the next."""
        left = []
        while self._things:
            name, remove = self._things.pop()
            self.report(f"removing {name}")
            try:
                remove()
            except (Exception, KeyboardInterrupt) as problem:  # noqa: BLE001 - the others are removed all the same
                left.append(f"{name}: {type(problem).__name__}: {problem}")
        return left
