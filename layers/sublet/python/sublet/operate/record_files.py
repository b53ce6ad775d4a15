"""Writes records as rows for other programs: lines of JSON, CSV, or a Parquet file. All three have the same columns."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, Self

from sublet.command_line.terminal_text import harmless
from sublet.errors import SettingsError
from sublet.operate.decoded_records import DecodedRecord
from sublet.payloads.readable_json import as_json, json_text

ROWS_AT_ONCE = 10_000
BYTES_AT_ONCE = 16 * 2**20
"""A row group of a Parquet file has so many rows, or so much data. It waits in memory."""

PARTIAL = ".partial"
"""A Parquet file has this suffix until it is complete: before its end is written, nobody can read it."""


class RecordOutput(StrEnum):
    NDJSON = "ndjson"
    CSV = "csv"
    PARQUET = "parquet"


class RecordRow(NamedTuple):
    """A record as a row. Its columns do not depend on what is in it.

    shard_id  in full if several streams are read
    data      as it was put; in text in base64
    value     what the data says, decoded; in CSV and Parquet as JSON. None if there is a problem
    problem   why it cannot be decoded
    """

    stream: str
    shard_id: str
    arrived: datetime
    partition_key: str | None
    sequence_number: str
    sub_sequence_number: int
    is_aggregated: bool
    data: bytes
    value: Any
    problem: str | None


def row_of(decoded: DecodedRecord, shard_id: str, stream: str) -> RecordRow:
    record = decoded.record
    return RecordRow(
        stream=stream,
        shard_id=shard_id,
        arrived=record.approximate_arrival_timestamp,
        partition_key=record.partition_key,
        sequence_number=record.sequence_number,
        sub_sequence_number=record.sub_sequence_number,
        is_aggregated=record.is_aggregated,
        data=record.data,
        value=decoded.value,
        problem=decoded.problem or None,
    )


class RecordWriter(AbstractContextManager["RecordWriter"], Protocol):
    """Where rows go. Leaving the block completes the file, however it is left."""

    def write(self, row: RecordRow) -> None: ...


def writer_of(output: RecordOutput, to: Path | None) -> RecordWriter:
    """Opens the file `to`, or writes to standard output. Raises SettingsError: no file is replaced, and Parquet needs a
    file and its library.
    """
    if output is RecordOutput.PARQUET:
        return _Parquet(to)
    return _Lines(_opened(to), _ndjson if output is RecordOutput.NDJSON else _Csv())


def _opened(to: Path | None) -> IO[str]:
    if to is None:
        return sys.stdout
    _refuse_existing(to)
    try:
        return to.open("x", encoding="utf-8", errors="backslashreplace", newline="")
    except OSError as problem:
        raise _cannot_write(to, problem) from None


def _refuse_existing(to: Path) -> None:
    if to.exists():
        raise SettingsError("to", str(to), "a new file: this one exists, and is not replaced")


def _cannot_write(to: Path, problem: OSError) -> SettingsError:
    return SettingsError("to", str(to), f"a file that can be written: {problem.strerror}")


class _Lines:
    """Writes text row by row, each at once. A terminal gets no control characters, which a partition key may have."""

    def __init__(self, file: IO[str], text_of: Callable[[RecordRow], str]) -> None:
        self._file, self._text_of = file, text_of
        self._shown = harmless if file.isatty() else str
        if isinstance(text_of, _Csv):
            file.write(text_of.line(RecordRow._fields))

    def write(self, row: RecordRow) -> None:
        self._file.write(self._shown(self._text_of(row)))
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not sys.stdout:
            self._file.close()


def _ndjson(row: RecordRow) -> str:
    return json_text(row._asdict()) + "\n"


class _Csv:
    """The text of rows, by RFC 4180 but for its line ends, which are of one character."""

    def __init__(self) -> None:
        self._text = ""
        self._writer = csv.writer(self, lineterminator="\n")

    def __call__(self, row: RecordRow) -> str:
        cells: dict[str, Any] = as_json({**row._asdict(), "value": _value_text(row)})
        return self.line([_cell(each) for each in cells.values()])

    def line(self, cells: Any) -> str:
        self._writer.writerow(cells)
        return self._text

    def write(self, text: str) -> None:
        """What the csv module calls with each line."""
        self._text = text


def _cell(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value


def _value_text(row: RecordRow) -> str | None:
    return None if row.problem else json_text(row.value)


class _Parquet:
    """Writes a Parquet file in row groups."""

    def __init__(self, to: Path | None) -> None:
        if to is None:
            raise SettingsError("output", RecordOutput.PARQUET, "only allowed with --to FILE")
        try:
            arrow: Any = import_module("pyarrow")
            parquet: Any = import_module("pyarrow.parquet")
        except ModuleNotFoundError:
            raise SettingsError(
                "output",
                RecordOutput.PARQUET,
                "left out, or install sublet with its extra parquet, which brings pyarrow",
            ) from None
        _refuse_existing(to)
        self._to, self._partial = to, to.with_name(to.name + PARTIAL)
        self._arrow, self._schema = arrow, _arrow_schema(arrow)
        self._rows: list[dict[str, Any]] = []
        self._size = 0
        try:
            self._writer: Any = parquet.ParquetWriter(str(self._partial), self._schema)
        except OSError as problem:
            raise _cannot_write(to, problem) from None

    def write(self, row: RecordRow) -> None:
        self._rows.append({**row._asdict(), "value": _value_text(row)})
        self._size += len(row.data)
        if len(self._rows) >= ROWS_AT_ONCE or self._size >= BYTES_AT_ONCE:
            self._write_group()

    def _write_group(self) -> None:
        self._writer.write_table(self._arrow.Table.from_pylist(self._rows, schema=self._schema))
        self._rows, self._size = [], 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._rows:
            self._write_group()
        self._writer.close()
        self._partial.rename(self._to)


def _arrow_schema(arrow: Any) -> Any:
    text = arrow.string()
    kinds = {
        "arrived": arrow.timestamp("ms", "UTC"),
        "sub_sequence_number": arrow.int64(),
        "is_aggregated": arrow.bool_(),
        "data": arrow.binary(),
    }
    return arrow.schema([(name, kinds.get(name, text)) for name in RecordRow._fields])
