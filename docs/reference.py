"""docs/reference.md, generated from the signatures, fields and docstrings of the public classes."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from types import MemberDescriptorType
from typing import Any

import sublet
from msgspec import Struct
from sublet.pull.consume import Consuming
from sublet.pull.subscription import Records

PULLED = "What `fetch` and `messages` return: an iterator over records, and a context manager that closes it."
CALLED_BACK = "What `consume` returns."

SHOWN: tuple[tuple[type, str], ...] = (
    (sublet.Batch, "What a handler is called with. `from sublet import Batch`"),
    (sublet.UserRecord, "One of a batch's records. `from sublet import UserRecord`"),
    (
        sublet.Consumer,
        "`from sublet import Consumer`; with `await`, `async for` and `async with`: `sublet.aio`",
    ),
    (
        sublet.Producer,
        "`from sublet import Producer`; with `await` and `async with`: `sublet.aio`. [What it promises](producer.md)",
    ),
    (sublet.Record, "What a consumer without a handler pulls. `from sublet import Record`"),
    (Records, PULLED),
    (Consuming, CALLED_BACK),
)


MEMBER = MemberDescriptorType
"""A struct's field, which the table already lists."""


def reference() -> str:
    """The whole reference. Members without a docstring are left out: they are internal."""
    return "\n".join(line for shown, said in SHOWN for line in _of(shown, said))


def _of(shown: type, said: str) -> Iterator[str]:
    yield from ("", f"## {shown.__name__}", "", said, "")
    yield from ("```text", inspect.getdoc(shown) or "", "```", "")
    if rows := list(_fields(shown)):
        yield from ("| field | type | default |", "|---|---|---|", *rows, "")
    if shown in (sublet.Consumer, sublet.Producer):  # what a program instantiates
        yield from (_wrapped(f"`{shown.__name__}{_signature(shown)}`"), "")
    yield from members(shown)


def members(shown: type) -> Iterator[str]:
    """A list of the methods and properties that have a docstring."""
    for name, member in vars(shown).items():
        if not name.startswith("_") and inspect.getdoc(member) and not isinstance(member, MEMBER):
            yield from _member(name, member)


def _fields(shown: type) -> Iterator[str]:
    if not issubclass(shown, Struct):
        return
    names, defaults = shown.__struct_fields__, shown.__struct_defaults__
    by_name = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    for name in names:
        if not name.startswith("_"):
            kind = str(shown.__annotations__[name]).replace("|", "\\|")
            yield f"| `{name}` | `{kind}` | {f'`{_name(by_name[name])}`' if name in by_name else ''} |"


def _member(name: str, member: Any) -> Iterator[str]:
    if isinstance(member, property):
        yield f"* **`{name}`** `{inspect.signature(member.fget).return_annotation}`"  # type: ignore[arg-type]
        doc = inspect.getdoc(member.fget)
    else:
        yield _wrapped(f"* **`{name}{_signature(member)}`**", "  ")
        doc = inspect.getdoc(member)
    yield from (f"  {line}".rstrip() for line in (doc or "").splitlines())


def _wrapped(text: str, indent: str = "") -> str:
    """A code span may go on in the next line."""
    return textwrap.fill(text, 120, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)


def _signature(of: Any) -> str:
    signature = inspect.signature(of)
    taken = [_shown(each) for each in signature.parameters.values() if each.name != "self"]
    return str(signature.replace(parameters=taken)).replace("'", "").replace(" -> None", "")


def _shown(parameter: inspect.Parameter) -> inspect.Parameter:
    """The CDK's Duration has no repr of its own."""
    if hasattr(parameter.default, "to_human_string"):
        return parameter.replace(default=parameter.default.to_human_string())
    return parameter


def _name(value: object) -> str:
    return getattr(value, "__name__", None) or repr(value)
