"""`sublet tail`: its options, and the rows that it writes for other programs."""

from __future__ import annotations

import base64
import csv
import json
import os
import signal
import sys
from argparse import ArgumentParser, Namespace
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import pyarrow.parquet
import pytest
from sublet.errors import SettingsError
from sublet.operate.cli.records import tail
from sublet.operate.record_files import PARTIAL, RecordOutput, RecordRow, writer_of

from tests.doubles.engine_world import NO_WAITING, SHARD, EngineWorld

SECOND = timedelta(seconds=1)
ROW = RecordRow("orders", SHARD, datetime(2026, 11, 22, 8, tzinfo=UTC), "a,b", "5", 0, False, b"\xff", {"id": 7}, None)


def options_of(*words: str) -> Namespace:
    parser = ArgumentParser()
    tail.add_arguments(parser)
    options = parser.parse_args(words)
    tail.check(options)
    return options


def show(world: EngineWorld, *words: str) -> None:
    tail.show(options_of(*words), world.ports, "events")


def world_with(*data: str) -> EngineWorld:
    world = EngineWorld(NO_WAITING)
    world.put(*data)
    return world


def test_tail_ends_after_as_many_as_are_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    show(world_with("1", "2", "3"), "--since", "earliest", "-n", "2")
    assert [line[-1] for line in capsys.readouterr().out.splitlines()] == ["1", "2"]


def test_tail_says_how_many_records_a_condition_could_not_be_applied_to(capsys: pytest.CaptureFixture[str]) -> None:
    world = world_with('{"price": 11}', "text", '{"price": "dear"}', '{"price": 12}')
    show(world, "--from", "earliest", "-n", "2", "--where", "price > 10")
    out, err = capsys.readouterr()
    assert [line.partition("  {")[2] for line in out.splitlines()] == ['"price": 11}', '"price": 12}']
    assert err == "sublet: --where could not be applied to 2 records, of the first: not an object with fields\n"


def test_no_follow_ends_with_the_records_that_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    world = world_with("1", "2")
    world.at(60 * SECOND, lambda: world.put("later"))
    show(world, "--since", "earliest", "--no-follow")
    assert [line[-1] for line in capsys.readouterr().out.splitlines()] == ["1", "2"]


def test_no_follow_reads_the_children_of_a_reshard_too(capsys: pytest.CaptureFixture[str]) -> None:
    world = world_with("parent")
    world.shards.split(SHARD)
    for key in "abcd":
        world.shards.put(key, b"child")
    show(world, "--since", "earliest", "--no-follow")
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()] == ["parent", *["child"] * 4]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--no-follow"], "since is required with --no-follow"),
        (["--to", "rows.csv"], "only allowed with --output"),
        (["--output", "csv", "--json"], "not allowed with --json"),
    ],
)
def test_options_that_mean_nothing_together_are_refused(words: list[str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        options_of(*words)


def test_ndjson_has_the_same_keys_for_every_record(capsys: pytest.CaptureFixture[str]) -> None:
    show(world_with('{"id": 7}', "text"), "--since", "earliest", "--no-follow", "--output", "ndjson")
    one, two = map(json.loads, capsys.readouterr().out.splitlines())
    assert list(one) == list(two) == list(RecordRow._fields)
    assert (one["stream"], one["shard_id"], one["value"], one["problem"]) == ("events", SHARD, {"id": 7}, None)
    assert (two["value"], base64.b64decode(two["data"])) == (None, b"text")
    assert two["problem"].startswith("not JSON")


def test_csv_has_a_header_and_quotes_what_needs_it(capsys: pytest.CaptureFixture[str]) -> None:
    with writer_of(RecordOutput.CSV, None) as writer:
        writer.write(ROW)
        writer.write(ROW._replace(partition_key=None, value=None, problem="not JSON"))
    one, two = csv.DictReader(StringIO(capsys.readouterr().out))
    assert tuple(one) == RecordRow._fields
    assert (one["partition_key"], one["value"], one["is_aggregated"]) == ("a,b", '{"id": 7}', "false")
    assert base64.b64decode(one["data"]) == b"\xff"
    assert (two["partition_key"], two["value"], two["problem"]) == ("", "", "not JSON")


def test_a_terminal_gets_no_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdout", terminal)
    with writer_of(RecordOutput.CSV, None) as writer:
        writer.write(ROW._replace(partition_key="\x1b[2Jada"))
    assert "\x1b" not in terminal.getvalue()
    assert ",\\x1b[2Jada," in terminal.getvalue()


def test_csv_without_records_is_its_header(capsys: pytest.CaptureFixture[str]) -> None:
    with writer_of(RecordOutput.CSV, None):
        pass
    assert capsys.readouterr().out == ",".join(RecordRow._fields) + "\n"


def test_parquet_has_the_columns_with_their_types(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    to = tmp_path / "rows.parquet"
    show(
        world_with('{"id": 7}', "text"),
        *("--since", "earliest", "--no-follow", "--output", "parquet", "--to", str(to)),
    )
    rows = pyarrow.parquet.read_table(to).to_pylist()
    assert [(row["value"], row["data"]) for row in rows] == [('{"id": 7}', b'{"id": 7}'), (None, b"text")]
    assert rows[0]["arrived"].tzinfo is not None
    assert tuple(rows[0]) == RecordRow._fields
    assert f"2 records are in {to}" in capsys.readouterr().err


def test_parquet_file_is_complete_after_ctrl_c(tmp_path: Path) -> None:
    to = tmp_path / "rows.parquet"
    with suppress(KeyboardInterrupt), writer_of(RecordOutput.PARQUET, to) as writer:
        writer.write(ROW)
        assert not to.exists()
        assert to.with_name(to.name + PARTIAL).exists()
        raise KeyboardInterrupt
    assert pyarrow.parquet.read_table(to).num_rows == 1
    assert list(tmp_path.iterdir()) == [to]


def test_parquet_is_written_in_groups_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sublet.operate.record_files.ROWS_AT_ONCE", 2)
    to = tmp_path / "rows.parquet"
    with writer_of(RecordOutput.PARQUET, to) as writer:
        for _ in range(5):
            writer.write(ROW)
    file = pyarrow.parquet.ParquetFile(to)
    assert (file.num_row_groups, file.metadata.num_rows) == (3, 5)


def test_parquet_is_refused_without_its_library_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="only allowed with --to FILE"):
        writer_of(RecordOutput.PARQUET, None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SettingsError, match="its extra parquet, which brings pyarrow"):
        writer_of(RecordOutput.PARQUET, tmp_path / "rows.parquet")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("output", list(RecordOutput))
def test_a_file_that_exists_is_not_replaced(tmp_path: Path, output: RecordOutput) -> None:
    to = tmp_path / "rows"
    to.write_text("mine")
    with pytest.raises(SettingsError, match="this one exists, and is not replaced"):
        writer_of(output, to)
    assert to.read_text() == "mine"
    with pytest.raises(SettingsError, match="a file that can be written: "):
        writer_of(output, tmp_path / "no-such-folder" / "rows")


def test_sigterm_ends_a_tail_as_ctrl_c_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of `timeout 60 sublet tail ...`."""
    to, world = tmp_path / "rows.parquet", world_with("1", "2")
    monkeypatch.setattr("sublet.operate.aws.ports.CommandPorts", lambda _: world.ports)
    world.at(30 * SECOND, lambda: os.kill(os.getpid(), signal.SIGTERM))
    before = signal.getsignal(signal.SIGTERM)
    words = ("--stream", "events", "--since", "earliest", "--output", "parquet", "--to", str(to))
    assert tail.tail(options_of(*words)) == 0
    assert pyarrow.parquet.read_table(to).num_rows == 2
    assert signal.getsignal(signal.SIGTERM) is before
