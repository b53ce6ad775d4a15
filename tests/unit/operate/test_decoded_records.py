"""Records as people look at them: what is too deep for them, and its place in every output."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from sublet.operate.cli.text.record_text import json_of
from sublet.operate.decoded_records import decoding_of
from sublet.operate.record_files import RecordOutput, row_of, writer_of
from sublet.settings.payload_format import parsed_format

from tests.doubles.user_records import batch_of

PROBLEM = "nested too deeply to be shown"


@pytest.mark.parametrize("levels", [10, *range(300, 1000, 5)])
def test_record_is_whole_in_every_output_however_deep_its_value_is(levels: int, tmp_path: Path) -> None:
    """A line of NDJSON was a text without the record."""
    (record,) = batch_of(b"\x91" * levels + b"\x01").records
    decoded = decoding_of(parsed_format("msgpack"), None).of(record)
    assert decoded is not None
    assert decoded.problem in ("", PROBLEM) or decoded.problem.startswith("not MessagePack that can be read")
    assert bool(decoded.problem) or levels < 700
    for output in (RecordOutput.NDJSON, RecordOutput.CSV):
        with writer_of(output, tmp_path / output) as writer:
            writer.write(row_of(decoded, "shardId-0", "orders"))
    line = json.loads((tmp_path / RecordOutput.NDJSON).read_text())
    (row,) = csv.DictReader(io.StringIO((tmp_path / RecordOutput.CSV).read_text()))
    assert line["sequence_number"] == row["sequence_number"] == record.sequence_number
    assert (line["problem"] or "") == row["problem"] == decoded.problem
    assert json.loads(json_of(record, "shardId-0", decoded))["sequence_number"] == record.sequence_number
