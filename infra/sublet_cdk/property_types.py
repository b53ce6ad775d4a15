"""Checks a construct's properties against its signature: a wrong type is a SettingsError with the property's name, and
a misspelt name one with the name that was meant.

Otherwise `worker_memory="512"` is a TypeError about `<`, and `stream="arn:..."` an AttributeError, deep in our code
or CDK's.
"""

from __future__ import annotations

import collections.abc
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from functools import cache, wraps
from inspect import signature
from pathlib import Path
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Concatenate, ParamSpec, Union, cast, get_args, get_origin, get_type_hints

from aws_cdk import Token
from sublet.errors import SettingsError
from sublet.settings import DEFINITIONS, unknown
from sublet.settings.value import names_elsewhere

P = ParamSpec("P")
Init = Callable[Concatenate[Any, P], None]

_PLAIN = (str, bytes, int, float, Path, collections.abc.Mapping, collections.abc.Sequence)
_WORDS = {int: "a whole number", bool: "True or False", str: "text", Path: "a path"}


def typed_properties(init: Init[P]) -> Init[P]:
    """Decorates a construct's `__init__`. The settings check `**settings` themselves: they accept text too."""

    @wraps(init)
    def checked(self: Any, *args: P.args, **given: P.kwargs) -> None:
        hints = types_of(init)
        for name, value in given.items():
            _check_name(name, value, init)
            if name in hints and name != "settings":
                check_type(name, value, hints[name])
        init(self, *args, **given)

    return cast("Init[P]", checked)


OTHER_NAMES = {
    "alarm_actions": ("alarm_topic",),
    "memory_size": ("worker_memory", "memory"),
    "memory_limit_mib": ("memory", "worker_memory"),
    "desired_count": ("min_tasks",),
    "removal_policy": ("lease_table_removal",),
    "reserved_concurrent_executions": ("worker_reserved_concurrency",),
    "code": ("handler_code",),
    "env": ("worker_environment", "environment"),
}
"""Properties that CDK's own constructs call otherwise, and what ours call them."""

OF_THE_WORKER = "worker_"


def _check_name(name: str, value: object, init: Callable[..., None]) -> None:
    """Raises SettingsError for a name that is neither a property nor any setting's."""
    parameters = signature(init).parameters
    if name in parameters or (name in DEFINITIONS and "settings" in parameters):
        return
    ours = [each for each in parameters if each not in ("self", "scope", "construct_id", "settings")]
    known = [*ours, *(DEFINITIONS if "settings" in parameters else ())]
    elsewhere = {
        **names_elsewhere(),
        **{each.removeprefix(OF_THE_WORKER): each for each in ours if each.startswith(OF_THE_WORKER)},
        **{other: next((each for each in names if each in ours), "") for other, names in OTHER_NAMES.items()},
    }
    shown = value if isinstance(value, (str, int, float, NoneType)) else type(value).__name__
    raise unknown(name, shown, "property", known, elsewhere=elsewhere)


def check_type(name: str, value: object, hint: Any) -> None:
    kinds = _kinds(hint)
    if not any(_fits(value, kind) for kind in kinds):
        raise SettingsError(name, value, " or ".join(dict.fromkeys(map(_described, kinds))))


@cache
def types_of(init: Callable[..., None]) -> dict[str, Any]:
    """Returns types by property, and of the settings, but without types that the installed CDK is too old to know:
    such a property cannot have been given."""
    hints: dict[str, Any] = {}
    for name, text in init.__annotations__.items():
        if name != "return":
            with suppress(AttributeError):
                hints[name] = get_type_hints(SimpleNamespace(__annotations__={name: text}), init.__globals__)[name]
    return hints


def _kinds(hint: Any) -> tuple[Any, ...]:
    """Returns the parts of a union."""
    if get_origin(hint) in (Union, UnionType):
        return tuple(kind for part in get_args(hint) for kind in _kinds(part))
    return (hint,)


def _fits(value: object, kind: Any) -> bool:
    if isinstance(value, (str, float, list)) and Token.is_unresolved(value):
        return True
    of = get_origin(kind) or kind
    if of is NoneType:
        return value is None
    if of in (int, bool):
        return isinstance(value, of) and isinstance(value, bool) is (of is bool)
    if getattr(of, "_is_protocol", False):  # a CDK interface: any other value may have it
        return value is not None and not isinstance(value, _PLAIN)
    is_text_for_many = isinstance(value, str) and of is not str and not issubclass(of, Enum)
    return isinstance(value, of) and not is_text_for_many


def _described(kind: Any) -> str:
    of = get_origin(kind) or kind
    if of is NoneType:
        return "None"
    if of in _WORDS:
        return _WORDS[of]
    if issubclass(of, Enum):
        return f"one of {', '.join(f'{of.__name__}.{member.name}' for member in of)}"
    if getattr(of, "_is_protocol", False):
        return f"a construct with {of.__module__}.{of.__name__}{_such_as(of)}"
    return f"a value of type {of.__module__}.{of.__name__}"


def _such_as(interface: type) -> str:
    """Returns CDK's way to refer to an existing resource, such as `Stream.from_stream_arn(...)` for an IStream."""
    name = interface.__name__.removeprefix("I")
    made_by = getattr(sys.modules[interface.__module__], name, None)
    ways = [way for end in ("_arn", "_lookup") for way in vars(made_by) if re.fullmatch(rf"from\w*{end}", way)]
    return f", such as {name}.{ways[0]}(...)" if ways else ""
