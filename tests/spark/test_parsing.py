"""Data to columns, if Arrow refuses a value that fits the schema: only that record is rejected."""

from __future__ import annotations

import json

import pyarrow as pa
from sublet.spark.pipeline.parsing import parse_array

SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": "id", "type": "long", "nullable": True, "metadata": {}},
        {"name": "note", "type": "string", "nullable": True, "metadata": {}},
    ],
}
NARROW = pa.struct([("parsed", pa.struct([("id", pa.int8()), ("note", pa.string())])), ("reason", pa.string())])


def test_rows_that_arrow_refuses_are_rejected_alone() -> None:
    data = pa.array([b'{"id": 1}', b'{"id": 1000}', b"nonsense", b'{"id": 2, "note": "x"}'])
    rows = parse_array(json.dumps(SCHEMA), NARROW, data).to_pylist()
    assert [row["parsed"] for row in rows] == [{"id": 1, "note": None}, None, None, {"id": 2, "note": "x"}]
    assert [row["reason"] and row["reason"][:30] for row in rows] == [
        *(None, "cannot be read: ArrowInvalid: ", "not JSON: Expecting value: lin", None),
    ]
