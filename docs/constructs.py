"""docs/constructs.md's tables: the constructs' properties and methods, from their signatures and docstrings."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator

import sublet_cdk
from sublet.settings.reasons import texts_below_fields
from sublet_cdk.property_help import HELP, Property

from docs.reference import members

SHOWN: tuple[type, ...] = (
    sublet_cdk.KinesisConsumer,
    sublet_cdk.KinesisConsumerService,
    sublet_cdk.ConsumerMonitoring,
    sublet_cdk.SparkPipeline,
)
VALUES: tuple[type, ...] = (sublet_cdk.AlarmThresholds, sublet_cdk.PipelineThresholds, sublet_cdk.WorkerSize)
"""What some properties take."""

REQUIRED = "required"


def constructs() -> str:
    sections = [*map(_of, SHOWN), *map(_value, VALUES)]
    return "\n".join(line for section in sections for line in section)


def _of(construct: type) -> Iterator[str]:
    said = HELP[construct]
    yield from ("", f"## {construct.__name__}", "", said.opening, "")
    yield from ("| property | type | default | meaning |", "|---|---|---|---|")
    for block in said.blocks:
        first, *others = block.properties
        yield _row(first, _sentence(block.meaning))
        yield from (_row(each, f"See `{first.name}`.") for each in others)
    if said.settings:
        each = "Each by its name, as in `window=timedelta(minutes=5)`: [settings](settings.md)."
        yield f"| {len(said.settings)} settings | | | {each} |"
    if said.closing:
        yield from ("", said.closing)
    if methods := list(members(construct)):
        yield from ("", *methods)


def _row(of: Property, meaning: str) -> str:
    default = REQUIRED if of.default is None else f"`{of.default}`"
    return f"| `{of.name}` | `{_escaped(of.type)}` | {default} | {_escaped(meaning)} |"


def _value(of: type) -> Iterator[str]:
    meanings = texts_below_fields(of)
    yield from ("", f"## {of.__name__}", "", inspect.getdoc(of) or "", "")
    yield from ("| field | type | default | meaning |", "|---|---|---|---|")
    for field in dataclasses.fields(of):
        yield _row(Property(field.name, str(field.type), str(field.default)), meanings.get(field.name, ""))


def _sentence(meaning: str) -> str:
    text = meaning if meaning.startswith(("`", '"')) else meaning[0].upper() + meaning[1:]
    return text if text.endswith(".") else f"{text}."


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
