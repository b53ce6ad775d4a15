"""Turns data into parsed values or reasons, one Arrow array at a time, inside the tasks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pyarrow as pa

from sublet.spark.pipeline.json_fit import unreadable
from sublet.spark.pipeline.payload import JSON_PAYLOAD, Payload, payload_reader

PARSED, REASON = "parsed", "reason"


ARRAY_MAX = 512 * 2**20
"""Bytes of an array to which records were decoded. Arrow's text holds 2 GiB, and the JVM takes an array as a whole."""


def parse_array(
    schema: str, kind: pa.StructType, data: pa.Array, payload: Payload = JSON_PAYLOAD
) -> Iterator[pa.Array]:
    """A struct of `parsed` and `reason` for each element of `data`; one of the two is null. Several arrays in their
    order, if one would be too large: a record may be a thousand times as large when decompressed.

    schema  the columns in Spark's JSON, as text, so that a worker compiles it once
    kind    the struct's Arrow type
    payload what the data is
    """
    read = _reader(schema, payload)
    return _arrays([read(each) for each in data.to_pylist()], kind)


Row = dict[str, Any] | list[dict[str, Any]] | str
"""The fitted fields, those of each line, or the reason why the record does not fit."""


def _arrays(rows: list[Row], kind: pa.StructType) -> Iterator[pa.Array]:
    """The rows in one array, or those of each half."""
    found = _array(rows, kind)
    if found is None:
        found = _array([_or_why_not(row, kind) for row in rows], kind)
    if found is not None and (found.nbytes <= ARRAY_MAX or len(rows) == 1):
        yield found
        return
    del found  # before the halves are made
    half = len(rows) // 2
    yield from _arrays(rows[:half], kind)
    yield from _arrays(rows[half:], kind)


def _array(rows: list[Row], kind: pa.StructType) -> pa.Array | None:
    """None if Arrow refuses a value, or all of the rows' text in one array."""
    try:
        parsed = _structs(rows, kind)
        reasons = pa.array([row if type(row) is str else None for row in rows], pa.string())
    except _REFUSED:
        return None
    if isinstance(parsed, pa.ChunkedArray) or isinstance(reasons, pa.ChunkedArray):
        return None
    return pa.StructArray.from_arrays([parsed, reasons], fields=[kind.field(PARSED), kind.field(REASON)])


_REFUSED = (pa.ArrowException, ValueError, TypeError, OverflowError)


def _structs(rows: list[Row], kind: pa.StructType) -> pa.Array:
    return pa.array([None if type(row) is str else row for row in rows], kind.field(PARSED).type)


def _or_why_not(row: Row, kind: pa.StructType) -> Row:
    """Returns the row, or a reason if Arrow refuses it, so that only this record is rejected."""
    try:
        is_whole = isinstance(_structs([row], kind), pa.Array)
    except _REFUSED as fault:
        return unreadable(fault)
    return row if is_whole else "more than 2 GiB of text"


@cache
def _reader(schema: str, payload: Payload) -> Callable[[bytes], Row]:
    return payload_reader(json.loads(schema), payload)
