"""Keeps a list of what a run creates in the account, and removes it, also after Ctrl-C and if it was only half
created.

A name proves nothing: a thing is removed only if this run's call created it, or if it carries this run's tag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

TAG = "sublet-acceptance"
"""Its value is the prefix of the run's names."""


class Thing(Protocol):
    """One thing in an account."""

    @property
    def label(self) -> str: ...

    def tags(self) -> Mapping[str, str] | None:
        """Returns its tags, or None if there is no such thing."""

    def remove(self) -> None:
        """Removes it, and waits until it is gone. A missing thing is no error."""


@dataclass(slots=True)
class _Belonging:
    thing: Thing
    is_made: bool = False


@dataclass(slots=True)
class Belongings:
    """`run`: the tag's value. Each thing is listed before it is created, so that nothing exists unrecorded at any
    moment.
    """

    run: str
    report: Callable[[str], None]
    _listed: list[_Belonging] = field(default_factory=list)

    @contextmanager
    def making(self, thing: Thing) -> Iterator[None]:
        """The block creates the thing. If it raises, only the tag can tell later that the thing is this run's."""
        belonging = _Belonging(thing)
        self._listed.append(belonging)
        yield
        belonging.is_made = True

    def tagged(self, thing: Thing) -> None:
        """Lists a thing that something else creates, such as a stack: it is removed if it carries the tag."""
        self._listed.append(_Belonging(thing))

    def remove_all(self, but: str | None = None) -> list[str]:
        """Removes in reverse order, all `but` the thing with this label. Returns what could not be removed, and why.
        Ctrl-C gives up the current thing and goes on with the next.
        """
        left, kept = [], []
        while self._listed:
            belonging = self._listed.pop()
            if belonging.thing.label == but:
                kept.append(belonging)
                continue
            try:
                self._remove(belonging)
            except (Exception, KeyboardInterrupt) as problem:  # noqa: BLE001 - the others are removed all the same
                left.append(f"{belonging.thing.label}: {type(problem).__name__}: {problem}")
        self._listed.extend(kept)
        return left

    def _remove(self, belonging: _Belonging) -> None:
        thing, tags = belonging.thing, belonging.thing.tags()
        if tags is None:
            return
        if not belonging.is_made and tags.get(TAG) != self.run:
            self.report(f"left alone, because this run did not create it: {thing.label}")
            return
        self.report(f"removing {thing.label}")
        thing.remove()
