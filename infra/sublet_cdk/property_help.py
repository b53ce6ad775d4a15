"""What `help(KinesisConsumer)` says, and docs/constructs.md: each property with its type, its default and what it is.

A construct's docstring says what each property is, and the signature of its `__init__` has the rest. jsii's metaclass
shows neither: `help` would say that a construct takes `*args, **kwargs`.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from inspect import Parameter, Signature, cleandoc, signature
from typing import Any, NamedTuple, TypeVar, get_args

from sublet.settings import DEFINITIONS
from sublet_cdk.property_types import types_of

T = TypeVar("T")

NOT_PROPERTIES = ("self", "scope", "construct_id")
AS_FOR = re.compile(r"as for (\w+)(?:$|\. )(.*)")
BLOCK = re.compile(r"((?:\w+, ?\n?)*\w+)(?:  +|\n +)(\S.*(?:\n +.*)*)")
"""A docstring's line of names, and what they are: on the same line after two spaces, or indented below."""


class Property(NamedTuple):
    """type and default as the source writes them; the default is None if the property is required."""

    name: str
    type: str
    default: str | None

    def __str__(self) -> str:
        return f"{self.name}: {self.type}" + ("" if self.default is None else f" = {self.default}")


class Explained(NamedTuple):
    """What one block of a docstring says, on one line, and the properties that it is about."""

    properties: tuple[Property, ...]
    meaning: str


class PropertyHelp(NamedTuple):
    """settings: those that `**settings` takes; none if the construct has no settings."""

    opening: str
    blocks: tuple[Explained, ...]
    settings: tuple[Property, ...]
    closing: str


HELP: dict[type, PropertyHelp] = {}
"""By construct."""


def with_property_help(*like: type) -> Callable[[type[T]], type[T]]:
    """Decorates a construct. `like`: constructs whose sentences "as for KinesisConsumer" stands for. Raises ValueError
    if the docstring leaves out a property, or has one that the signature has not.
    """

    def decorated(construct: type[T]) -> type[T]:
        setattr(construct, "__signature__", _OfInit())  # noqa: B010 - a type checker knows no such attribute
        if construct.__doc__:  # python -OO leaves it out
            HELP[construct] = _parsed(construct, like)
            construct.__doc__ = "\n".join(_lines(HELP[construct]))
        return construct

    return decorated


class _OfInit:
    """Answers inspect.signature of a construct, and of a subclass with an `__init__` of its own."""

    def __get__(self, instance: object, owner: type) -> Signature:
        init: Any = owner.__init__  # type: ignore[misc]
        of = signature(init)
        parameters = [_as_written(each) for name, each in of.parameters.items() if name != "self"]
        return of.replace(parameters=parameters, return_annotation=Signature.empty)


def _as_written(parameter: Parameter) -> Parameter:
    if isinstance(parameter.annotation, str):
        return parameter.replace(annotation=_AsWritten(parameter.annotation))
    return parameter


class _AsWritten(str):
    """An annotation that help shows without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def _parsed(construct: type, like: tuple[type, ...]) -> PropertyHelp:
    opening, _, rest = cleandoc(construct.__doc__ or "").partition("\n\n")
    of_block, _, closing = rest.partition("\n\n")
    init: Any = construct.__init__  # type: ignore[misc]
    parameters = signature(init).parameters
    properties = {name: _property(each) for name, each in parameters.items() if name not in NOT_PROPERTIES}
    takes_settings = properties.pop("settings", None)
    blocks = tuple(
        sorted(
            _explained(of_block, properties, {each.__name__: each for each in like}),
            key=lambda block: list(properties).index(block.properties[0].name),
        )
    )
    if forgotten := properties.keys() - {each.name for block in blocks for each in block.properties}:
        raise ValueError(f"{construct.__name__}'s docstring does not say what {', '.join(sorted(forgotten))} is")
    settings = tuple(_settings(init)) if takes_settings else ()
    return PropertyHelp(opening, blocks, settings, closing)


def _explained(text: str, properties: Mapping[str, Property], like: Mapping[str, type]) -> Iterator[Explained]:
    position = 0
    while position < len(text):
        found = BLOCK.match(text, position)
        if found is None:
            raise ValueError(f"not a property and what it is: {text[position : position + 60]!r}")
        position = found.end() + 1
        names, meaning = re.findall(r"\w+", found[1]), " ".join(found[2].split())
        if unknown := [name for name in names if name not in properties]:
            raise ValueError(f"no such property: {', '.join(unknown)}")
        meant = tuple(properties[name] for name in names)
        if as_for := AS_FOR.match(meaning):
            yield from _as_for(HELP[like[as_for[1]]], meant, as_for[2])
        else:
            yield Explained(meant, meaning)


def _as_for(other: PropertyHelp, properties: tuple[Property, ...], but: str) -> Iterator[Explained]:
    for block in other.blocks:
        its_names = {each.name for each in block.properties}
        if same := tuple(each for each in properties if each.name in its_names):
            yield Explained(same, f"{block.meaning}. {but}" if but else block.meaning)


def _property(parameter: Parameter) -> Property:
    default = None if parameter.default is Parameter.empty else _default(parameter.default)
    return Property(parameter.name, str(parameter.annotation), default)


def _default(value: object) -> str:
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    return value.name if hasattr(value, "name") else repr(value)  # Runtime's and Architecture's


def _settings(init: Callable[..., None]) -> Iterator[Property]:
    """Of `**settings: Unpack[WorkerKeywords]`."""
    (keywords,) = get_args(types_of(inspect.unwrap(init))["settings"])
    for name in keywords.__annotations__:
        setting = DEFINITIONS[name]
        yield Property(name, setting.kind.__name__, None if setting.is_required else setting.default_text or "None")


def _lines(of: PropertyHelp) -> Iterator[str]:
    yield from (of.opening, "")
    for block in of.blocks:
        yield from map(str, block.properties)
        yield from _indented(block.meaning)
    if of.settings:
        yield "**settings"
        yield from _indented("each setting by its name; docs/settings.md says what it is, and which values it takes:")
        yield from (f"    {each}" for each in of.settings)
    if of.closing:
        yield from ("", of.closing)


def _indented(text: str) -> list[str]:
    return textwrap.wrap(text, 100, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
