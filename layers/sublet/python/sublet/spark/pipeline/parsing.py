"""Turns data into parsed values or reasons, one Arrow array at a time, inside the tasks."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pyarrow as pa

from sublet.spark.pipeline.json_fit import unreadable
from sublet.spark.pipeline.payload import JSON_PAYLOAD, Payload, payload_reader

PARSED, REASON = "parsed", "reason"


def parse_array(schema: str, kind: pa.StructType, data: pa.Array, payload: Payload = JSON_PAYLOAD) -> pa.Array:
    """Returns a struct of `parsed` and `reason` for each element of `data`; one of the two is null.

    schema  the columns in Spark's JSON, as text, so that a worker compiles it once
    kind    the struct's Arrow type
    payload what the data is
    """
    read = _reader(schema, payload)
    rows = [read(each) for each in data.to_pylist()]
    try:
        parsed = _structs(rows, kind)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        rows = [_or_why_not(row, kind) for row in rows]
        parsed = _structs(rows, kind)
    reasons = pa.array([row if type(row) is str else None for row in rows], pa.string())
    return pa.StructArray.from_arrays([parsed, reasons], fields=[kind.field(PARSED), kind.field(REASON)])


Row = dict[str, Any] | list[dict[str, Any]] | str
"""The fitted fields, those of each line, or the reason why the record does not fit."""


def _structs(rows: list[Row], kind: pa.StructType) -> pa.Array:
    return pa.array([None if type(row) is str else row for row in rows], kind.field(PARSED).type)


def _or_why_not(row: Row, kind: pa.StructType) -> Row:
    """Returns the row, or a reason if Arrow refuses it, so that only this record is rejected."""
    try:
        _structs([row], kind)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as fault:
        return unreadable(fault)
    return row


@cache
def _reader(schema: str, payload: Payload) -> Callable[[bytes], Row]:
    return payload_reader(json.loads(schema), payload)
