"""A setting as data, read from its field of `Settings`: nothing of it is written a second time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, dataclass
from datetime import timedelta
from types import MappingProxyType, NoneType
from typing import Any, get_args

from sublet.errors import SettingsError
from sublet.settings.allowed import Allowed, Elsewhere, OfItsKind, Only
from sublet.settings.text import duration_text, kind_text, setting_text


@dataclass(frozen=True, slots=True)
class Definition:
    """One setting. `kind` is its type, without None; its reason is the text below the field: see `reasons`."""

    name: str
    kind: Any
    default: object
    allowed: Allowed
    only: Only | None
    elsewhere: Elsewhere

    @property
    def is_required(self) -> bool:
        return self.default is MISSING

    @property
    def default_text(self) -> str:
        """As it would stand in the environment; empty when there is none."""
        return "" if self.default in (MISSING, None) else setting_text(self.default)

    def check(self, value: object) -> None:
        """The text of a mode, or a number of seconds, would otherwise be taken for something else further on."""
        if value is None and self.default is None:
            return
        if not isinstance(value, self.kind) or isinstance(value, bool) is not (self.kind is bool):
            raise SettingsError(self.name, value, f"a value of type {self.kind.__name__}")
        if not self.allowed.allows(value):
            shown = duration_text(value) if isinstance(value, timedelta) else value
            raise SettingsError(self.name, shown, str(self.allowed))


def definitions_of(fields: Iterable[Field[Any]]) -> Mapping[str, Definition]:
    """By name, in the order of the class."""
    return MappingProxyType({field.name: _definition(field) for field in fields})


def _definition(field: Field[Any]) -> Definition:
    declared, notes = getattr(field.type, "__origin__", field.type), getattr(field.type, "__metadata__", ())
    kind = next((part for part in get_args(declared) if part is not NoneType), declared)
    allowed: Allowed = OfItsKind(kind_text(kind))
    only, elsewhere = None, Elsewhere()
    for note in notes:
        match note:
            case Only():
                only = note
            case Elsewhere():
                elsewhere = note
            case _:
                allowed = note
    return Definition(field.name, kind, field.default, allowed, only, elsewhere)
