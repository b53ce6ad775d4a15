"""Matching an event against what a pattern wants of its leaves, by the rules of AWS' own matcher, event-ruler.

A leaf is a text, a number, true, false or null. An array stands for its elements, so an object, an empty object and an
empty array are no leaf, and a field that has no leaf is absent. What is wanted of one array is found in one of its
elements: no pattern matches by one field of an element and another field of the next. A name `a.b` is the field `b` of
`a`, in patterns and in events.

Where event-ruler's answer depends on the alphabetical order of a pattern's fields, this matches if any order would: a
record that the handler did not want can be ignored, a record that is dropped is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

Path = tuple[str, ...]


class LeafCondition(NamedTuple):
    """Whether a leaf matches, and whether the absence of every leaf does."""

    matches: Callable[[Any], bool]
    wants_absence: bool = False


@dataclass(frozen=True, slots=True)
class PatternNode:
    """What is wanted of a value as a leaf, and of its fields.

    dotted            the fields below, by the names with dots under which an event may have them
    may_be_absent     an event without any of it matches
    """

    of_leaf: LeafCondition | None
    fields: Mapping[str, PatternNode]
    dotted: tuple[tuple[str, Path], ...]
    may_be_absent: bool

    def matches(self, event: Mapping[str, Any]) -> bool:
        return self._is_found(event) or self._is_absent([event])

    def _is_found(self, value: Any) -> bool:
        """All is as wanted, and at least one leaf of the value is a part of that."""
        if isinstance(value, list):
            return any(map(self._is_found, value)) or self._is_found_beside(value)
        if isinstance(value, dict):
            return self._is_found_in(value)
        if self.of_leaf is None or not self.of_leaf.matches(value):
            return False
        return all(wanted.may_be_absent for wanted in self.fields.values())

    def _is_found_beside(self, values: list[Any]) -> bool:
        """With the leaf beside the element that has the fields: only objects and arrays hold what is wanted
        together.
        """
        if self.of_leaf is None or not self.fields:
            return False
        fields = replace(self, of_leaf=None)
        leaves = (each for each in values if not isinstance(each, list | dict))
        return any(map(self.of_leaf.matches, leaves)) and fields._is_found(values)  # noqa: SLF001

    def _is_found_in(self, fields: dict[str, Any]) -> bool:
        if self.of_leaf is not None and not self.of_leaf.wants_absence:
            return False
        fields, found = self._nested(fields), False
        for name, wanted in self.fields.items():
            if name in fields and wanted._is_found(fields[name]):  # noqa: SLF001 - of the same tree
                found = True
            elif not wanted._is_absent([fields[name]] if name in fields else ()):  # noqa: SLF001
                return False
        return found

    def _is_absent(self, values: Iterable[Any]) -> bool:
        """All is as wanted because none of the values has a leaf of it."""
        if not self.may_be_absent:
            return False
        flat = list(_elements(values))
        objects = [self._nested(each) for each in flat if isinstance(each, dict)]
        if self.of_leaf is not None and len(objects) < len(flat):
            return False
        return all(
            wanted._is_absent([each[name] for each in objects if name in each])  # noqa: SLF001
            for name, wanted in self.fields.items()
        )

    def _nested(self, fields: dict[str, Any]) -> dict[str, Any]:
        """The object with the names that have dots as fields of fields."""
        for name, path in self.dotted:
            if name in fields:
                fields = _with(fields, path, fields[name])
        return fields


def node_of(conditions: Mapping[Path, LeafCondition]) -> PatternNode:
    """All of the conditions, by the paths of their fields."""
    of_leaf = conditions.get(())
    fields = {
        name: node_of({path[1:]: each for path, each in conditions.items() if path[:1] == (name,)})
        for name in dict.fromkeys(path[0] for path in conditions if path)
    }
    below = dict.fromkeys(path[:end] for path in conditions for end in range(2, len(path) + 1))
    return PatternNode(
        of_leaf,
        fields,
        tuple((".".join(path), path) for path in below),
        (of_leaf is None or of_leaf.wants_absence) and all(each.may_be_absent for each in fields.values()),
    )


def _elements(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list):
            yield from _elements(value)
        else:
            yield value


def _with(fields: dict[str, Any], path: Path, found: Any) -> dict[str, Any]:
    """What is there already stays beside it, as in an array."""
    first, rest = path[0], path[1:]
    if first not in fields:
        return {**fields, first: _with({}, rest, found) if rest else found}
    inner = fields[first]
    if rest and isinstance(inner, dict):
        return {**fields, first: _with(inner, rest, found)}
    return {**fields, first: [inner, _with({}, rest, found) if rest else found]}
