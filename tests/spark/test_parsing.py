"""Data to columns, if Arrow refuses a value that fits the schema: only that record is rejected."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql.types import StringType
from sublet.spark.pipeline import parsing
from sublet.spark.pipeline.parsing import parse_array
from sublet.spark.release import with_column

from infra.local import EmbeddedAws
from tests.spark.local_session import local_session

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
    [array] = parse_array(json.dumps(SCHEMA), NARROW, data)
    rows = array.to_pylist()
    assert [row["parsed"] for row in rows] == [{"id": 1, "note": None}, None, None, {"id": 2, "note": "x"}]
    assert [row["reason"] and row["reason"][:30] for row in rows] == [
        *(None, "cannot be read: ArrowInvalid: ", "not JSON: Expecting value: lin", None),
    ]


def test_decoded_text_beyond_an_array_comes_in_several(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand records that a few kilobytes claim to be: more than 2 GiB of text ended each attempt of a batch."""
    monkeypatch.setattr(parsing, "ARRAY_MAX", 100_000)
    data = [zlib.compress(b'{"id": %d, "note": "%s"}' % (number, b"x" * 40_000)) for number in range(7)]
    arrays = list(parse_array(json.dumps(SCHEMA), NARROW, pa.array([*data, b"nonsense"])))
    assert len(arrays) == 4
    rows = [row for array in arrays for row in array.to_pylist()]
    assert [row["parsed"] and row["parsed"]["id"] for row in rows] == [*range(7), None]


def test_text_that_arrow_puts_into_chunks_is_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which it does beyond 2 GiB; here, beyond two rows."""

    def chunked(rows: list[parsing.Row], kind: pa.StructType) -> pa.Array | pa.ChunkedArray:
        whole = structs(rows, kind)
        return whole if len(rows) <= 2 else pa.chunked_array([whole[:1], whole[1:]])

    structs = parsing._structs
    monkeypatch.setattr(parsing, "_structs", chunked)
    arrays = list(parse_array(json.dumps(SCHEMA), NARROW, pa.array([b'{"id": %d}' % number for number in range(5)])))
    assert [len(array) for array in arrays] == [2, 1, 2]
    assert [row["parsed"]["id"] for array in arrays for row in array.to_pylist()] == [*range(5)]


@pytest.mark.timeout(300)
def test_batch_of_several_arrays_keeps_each_row_s_own(embedded_aws: EmbeddedAws) -> None:
    def twice(data: pa.Array) -> Iterator[pa.Array]:
        yield pc.utf8_upper(data[:1])
        yield pc.utf8_upper(data[1:])

    with local_session(embedded_aws) as spark:
        rows = spark.createDataFrame([(number, f"row {number}") for number in range(100)], "id INT, text STRING")
        found = with_column(rows, "upper", StringType(), twice, of="text").collect()
    assert [tuple(row) for row in found] == [(number, f"row {number}", f"ROW {number}") for number in range(100)]
