"""Kubernetes objects, checked against the schemas in tests/data/kubernetes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import fastjsonschema
import yaml

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "tests/data/kubernetes/schemas.json"
EXAMPLES = ROOT / "examples/kubernetes"
CHART = EXAMPLES / "chart"

Object = Mapping[str, Any]


@cache
def _known() -> Mapping[str, Any]:
    known: Mapping[str, Any] = json.loads(SCHEMAS.read_text())
    return known


@cache
def _check_of(kind: str) -> Callable[[Object], object]:
    known = _known()
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", **known["kinds"][kind]}
    check: Callable[[Object], object] = fastjsonschema.compile({**schema, "definitions": known["definitions"]})
    return check


def kind_of(found: Object) -> str:
    return f"{found['apiVersion']}/{found['kind']}"


def problem(found: Object) -> str | None:
    """What the schema says against an object; None if nothing."""
    try:
        _check_of(kind_of(found))(found)
    except fastjsonschema.JsonSchemaValueException as refused:
        return str(refused.message)
    return None


def objects(text: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(text) if each is not None]


def named(found: Iterable[Object], kind: str) -> Object:
    """The only object of a kind."""
    (one,) = [each for each in found if each["kind"] == kind]
    return one
