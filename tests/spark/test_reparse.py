"""`sublet pipeline reparse`: each record once in `parsed` or `rejected`, also after a kill in the middle."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from sublet.errors import SettingsError
from sublet.payloads.framing import for_confluent
from sublet.spark.pipeline import reparsing
from sublet.spark.pipeline.delta_tables import DeltaTables
from sublet.spark.pipeline.judging import schema_version, with_arrival_date
from sublet.spark.pipeline.lake import open_lake
from sublet.spark.pipeline.layout import Batch
from sublet.spark.pipeline.merge import Merge
from sublet.spark.pipeline.merge_rule import MERGED, MergeRule
from sublet.spark.pipeline.merged_table import MergedTable
from sublet.spark.pipeline.reparse_command import ReparseSettings, Source
from sublet.spark.pipeline.reparsing import Reparsed, reparse
from sublet.spark.pipeline.running import run_pipeline, schema_of
from sublet.spark.pipeline.settings import Sink, pipeline_settings
from sublet.spark.pipeline.tally import PlainLines, RunTally
from sublet.spark.plan.table_positions import TablePositions, filled
from sublet.system.clock import SystemClock

from infra.local import EmbeddedAws
from tests.doubles.http_registry import served
from tests.spark.local_session import local_session
from tests.spark.source_rows import Records

OLD = "id INT NOT NULL, at INT NOT NULL"
NEW = "id INT NOT NULL, at INT NOT NULL, note STRING"
WIDER = "id INT NOT NULL, at INT"
RULE = MergeRule(key=("id",), order_by=("at",))
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def spark(embedded_aws: EmbeddedAws) -> Iterator[SparkSession]:
    with local_session(embedded_aws) as session:
        session.conf.set("spark.sql.session.timeZone", "UTC")
        yield session


@pytest.fixture
def stream(embedded_aws: EmbeddedAws) -> str:
    """Forty records that fit OLD, five that have no `at`, and five that are no JSON."""
    client, name = embedded_aws.client("kinesis"), f"reparsed-{os.getpid()}-{time.time_ns()}"
    client.create_stream(StreamName=name, ShardCount=2)
    client.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})
    data = [json.dumps({"id": number, "at": number, "note": f"note {number}"}) for number in range(40)]
    data += [json.dumps({"id": number}) for number in range(40, 45)] + [f"no JSON {number}" for number in range(5)]
    records = [{"Data": text.encode(), "PartitionKey": text} for text in data]
    assert client.put_records(StreamName=name, Records=records)["FailedRecordCount"] == 0
    time.sleep(1.1)
    return name


def write(
    spark: SparkSession,
    stream: str,
    folder: Path,
    schema: str | None,
    merge: MergeRule | None = None,
    form: str | None = None,
    **options: str,
) -> list[str]:
    """Returns what the run says."""
    given = pipeline_settings(
        output=str(folder / "lake"),
        checkpoint=None,
        sink=Sink.DELTA,
        schema=schema,
        transform=None,
        every=None,
        options={"stream": stream, **options},
        spark={},
        merge=merge,
        format=form,
    )
    said: list[str] = []
    run_pipeline(spark, given, RunTally(), PlainLines(said.append), SystemClock(), lambda: False)
    return said


def again(folder: Path, schema: str, source: Source, merge: MergeRule | None = None) -> ReparseSettings:
    return ReparseSettings(
        output=str(folder / "lake"),
        checkpoint=str(folder / "lake" / "_checkpoint"),
        sink=Sink.DELTA,
        source=source,
        schema=schema,
        merge=merge,
        spark={},
    )


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DeltaTable(str(folder / "lake" / table)).to_pyarrow_table().to_pylist()
    return found


def ids(folder: Path, table: str = "parsed") -> list[int]:
    return sorted(row["id"] for row in rows(folder, table))


def positions(folder: Path, table: str) -> Counter[tuple[str, int]]:
    return Counter((row["sequenceNumber"], row["subSequenceNumber"]) for row in rows(folder, table))


def assert_each_once(folder: Path) -> None:
    raw = positions(folder, "raw")
    assert set(raw.values()) == {1}
    assert raw == positions(folder, "parsed") + positions(folder, "rejected")


class Killed(Exception):
    """In place of SIGKILL: nothing of the run goes on."""


class DiesBefore:
    """A lake that dies before its merge of this number."""

    def __init__(self, lake: Any, number: int) -> None:
        self._lake, self._left = lake, number

    def merge(self, name: str, rows: DataFrame, merge: Merge, partitions: Sequence[str] = ()) -> None:
        if self._left == 0:
            raise Killed
        self._left -= 1
        self._lake.merge(name, rows, merge, partitions)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lake, name)


def dies_at(table: str, write_table: Callable[..., int], batch: int = 0) -> Callable[..., int]:
    """In place of `DeltaTables._write`: of this batch, this table is not written any more."""

    def write_one(tables: DeltaTables, name: str, frame: DataFrame, of: Batch) -> int:
        if name == table and of.number == batch:
            raise Killed
        return write_table(tables, name, frame, of)

    return write_one


def dies(*_given: Any, **_more: Any) -> int:
    raise Killed


def test_rejected_shrinks_by_what_fits_today(
    spark: SparkSession, stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before each of its changes, and run again."""
    write(spark, stream, tmp_path, OLD)
    assert len(rows(tmp_path, "rejected")) == 10
    for number in range(3):
        with monkeypatch.context() as patch:
            patch.setattr(reparsing, "open_lake", lambda *given, at=number: DiesBefore(open_lake(*given), at))
            with pytest.raises(Killed):
                reparse(spark, again(tmp_path, WIDER, Source.REJECTED), print)
        raw = positions(tmp_path, "raw")
        assert not raw - positions(tmp_path, "parsed") - positions(tmp_path, "rejected"), "a record is in none"
    assert reparse(spark, again(tmp_path, WIDER, Source.REJECTED), print) == Reparsed(0, 5)
    assert_each_once(tmp_path)
    assert ids(tmp_path) == list(range(45))
    rejected = rows(tmp_path, "rejected")
    assert {row["data"] for row in rejected} == {b"no JSON %d" % number for number in range(5)}
    assert {row["schemaVersion"] for row in rejected} == {schema_version(schema_of(spark, WIDER))}
    assert all(row["reason"].startswith("not JSON") for row in rejected)


def test_raw_fills_what_the_schema_adds(spark: SparkSession, stream: str, tmp_path: Path) -> None:
    """A lake that had no schema so far gets `parsed` and `rejected`; one more column then comes into both."""
    write(spark, stream, tmp_path, None)
    assert reparse(spark, again(tmp_path, OLD, Source.RAW), print) == Reparsed(40, 10)
    assert_each_once(tmp_path)
    assert reparse(spark, again(tmp_path, NEW, Source.RAW, RULE), print) == Reparsed(40, 10)
    assert_each_once(tmp_path)
    assert {row["id"]: row["note"] for row in rows(tmp_path, "parsed")} == {n: f"note {n}" for n in range(40)}
    assert ids(tmp_path, MERGED) == list(range(40))
    assert all("batch" not in row for row in rows(tmp_path, MERGED))
    with pytest.raises(SettingsError, match="setting merge-key = None: as it was so far"):
        reparse(spark, again(tmp_path, NEW, Source.RAW), print)
    with pytest.raises(SettingsError, match=r"setting schema = 'parsed\.note'"):
        reparse(spark, again(tmp_path, NEW.replace("STRING", "INT"), Source.RAW, RULE), print)


@pytest.mark.parametrize("is_before", [True, False])
def test_tables_that_begin_after_shards_have_ended_get_these_once(
    spark: SparkSession, embedded_aws: EmbeddedAws, stream: str, tmp_path: Path, is_before: bool
) -> None:
    """Whether `reparse` or the pipeline begins the tables, and also after the checkpoint was emptied."""
    write(spark, stream, tmp_path, None)
    client = embedded_aws.client("kinesis")
    left, right = (shard["ShardId"] for shard in client.list_shards(StreamName=stream)["Shards"])
    client.merge_shards(StreamName=stream, ShardToMerge=left, AdjacentShardToMerge=right)
    client.get_waiter("stream_exists").wait(StreamName=stream, WaiterConfig={"Delay": 1})
    client.put_record(StreamName=stream, Data=b'{"id": 50, "at": 50}', PartitionKey="50")
    time.sleep(1.1)
    write(spark, stream, tmp_path, None if is_before else OLD)
    said: list[object] = []
    assert reparse(spark, again(tmp_path, OLD, Source.RAW), said.append) == Reparsed(41, 10)
    assert not any("left to the pipeline" in str(line) for line in said)
    for log in ("offsets", "commits"):
        shutil.rmtree(tmp_path / "lake" / "_checkpoint" / log)
    write(spark, stream, tmp_path, OLD)
    assert_each_once(tmp_path)
    assert ids(tmp_path) == [*range(40), 50]


def test_batch_that_was_cut_off_before_its_tables_began_is_brought_by_reparse(
    spark: SparkSession, stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`reparse` is killed too, after it has moved the positions, and a run goes on before another one."""
    write(spark, stream, tmp_path, None, maxRecordsPerTrigger="10")
    commits = tmp_path / "lake" / "_checkpoint" / "commits"
    shutil.rmtree(commits)
    commits.mkdir()
    (commits / "0").write_text("v1\n{}")
    with monkeypatch.context() as patch:
        patch.setattr(reparsing, "open_lake", lambda *given: DiesBefore(open_lake(*given), 2))
        with pytest.raises(Killed):
            reparse(spark, again(tmp_path, OLD, Source.RAW), print)
    assert (rows(tmp_path, "parsed"), rows(tmp_path, "rejected")) == ([], [])
    write(spark, stream, tmp_path, OLD, maxRecordsPerTrigger="10")
    assert reparse(spark, again(tmp_path, OLD, Source.RAW), print) == Reparsed(40, 10)
    assert_each_once(tmp_path)


def test_pipeline_that_writes_while_reparse_begins_ends_one_of_them(
    spark: SparkSession, stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(spark, stream, tmp_path, None)
    fill = filled

    def meanwhile(tables: list[TablePositions]) -> list[TablePositions]:
        for log in ("offsets", "commits"):
            shutil.rmtree(tmp_path / "lake" / "_checkpoint" / log)
        write(spark, stream, tmp_path, OLD)
        return fill(tables)

    monkeypatch.setattr(reparsing, "filled", meanwhile)
    with pytest.raises(SettingsError, match="another run of this pipeline has written it"):
        reparse(spark, again(tmp_path, OLD, Source.RAW), print)
    assert_each_once(tmp_path)


def test_records_of_the_batch_under_way_are_left_for_later(spark: SparkSession, stream: str, tmp_path: Path) -> None:
    write(spark, stream, tmp_path, OLD)
    for note in (tmp_path / "lake" / "_checkpoint" / "commits").glob("*0*"):
        note.unlink()
    with pytest.raises(SettingsError, match=r"setting checkpoint = .*with a committed batch"):
        reparse(spark, again(tmp_path, WIDER, Source.REJECTED), print)
    (tmp_path / "lake" / "_checkpoint" / "commits" / "0").write_text("v1\n{}")
    assert reparse(spark, again(tmp_path, WIDER, Source.REJECTED), print) == Reparsed(5, 5)


def test_records_of_batches_that_a_set_back_numbers_anew_are_taken(
    spark: SparkSession, stream: str, tmp_path: Path
) -> None:
    """The checkpoint's last number is less than that of many rows."""
    write(spark, stream, tmp_path, OLD, maxRecordsPerTrigger="10")
    assert max(row["batch"] for row in rows(tmp_path, "raw")) > 1
    for log in ("offsets", "commits"):
        shutil.rmtree(tmp_path / "lake" / "_checkpoint" / log)
    write(spark, stream, tmp_path, OLD)
    assert reparse(spark, again(tmp_path, NEW, Source.RAW), print) == Reparsed(40, 10)
    assert_each_once(tmp_path)


@pytest.mark.parametrize("leases", ["none", "hold"])
def test_records_that_a_table_lacks_are_left_to_the_pipeline_after_a_set_back(
    spark: SparkSession, stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leases: str
) -> None:
    """A batch was cut off after `raw`, and then the checkpoint was emptied: its number is committed now, and the batch
    is not written."""
    shared: dict[str, Any] = {"application": stream, "leases": "hold", "failoverTime": "4s"} if leases == "hold" else {}
    with monkeypatch.context() as patch:
        patch.setattr(DeltaTables, "_write", dies_at("parsed", DeltaTables._write))
        with pytest.raises(StreamingQueryException):
            write(spark, stream, tmp_path, OLD, **shared)
    assert (len(rows(tmp_path, "raw")), (tmp_path / "lake" / "parsed").exists()) == (50, False)
    for log in ("offsets", "commits"):
        shutil.rmtree(tmp_path / "lake" / "_checkpoint" / log, ignore_errors=True)
    with monkeypatch.context() as patch:
        patch.setattr(DeltaTables, "_write", dies_at("parsed", DeltaTables._write, batch=2))
        with pytest.raises(StreamingQueryException):
            write(spark, stream, tmp_path, OLD, maxRecordsPerTrigger="10", **shared)
    said: list[object] = []
    done = reparse(spark, again(tmp_path, NEW, Source.RAW), said.append)
    left = 50 - done.fit - done.misfit
    assert any(str(line).startswith(f"{left} records left to the pipeline") for line in said)
    write(spark, stream, tmp_path, NEW, **shared)
    assert_each_once(tmp_path)


@pytest.mark.parametrize(("schema", "then"), [(OLD, WIDER), (WIDER, OLD)])
def test_a_batch_that_goes_on_with_another_schema_says_what_mends_it(
    spark: SparkSession, stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schema: str, then: str
) -> None:
    """It was cut off after `parsed`. Of the five records without `at`, none is in a table, or each is in both."""
    with monkeypatch.context() as patch:
        patch.setattr(DeltaTables, "_write", dies_at("rejected", DeltaTables._write))
        with pytest.raises(StreamingQueryException):
            write(spark, stream, tmp_path, schema)
    said = write(spark, stream, tmp_path, then)
    raw = positions(tmp_path, "raw")
    assert raw != positions(tmp_path, "parsed") + positions(tmp_path, "rejected")
    [line] = [line for line in said if "reparse --from raw" in line]
    assert line.startswith("parsed and rejected may both lack, or both have, records of ")
    reparse(spark, again(tmp_path, then, Source.RAW), print)
    assert_each_once(tmp_path)
    assert not any("reparse" in line for line in write(spark, stream, tmp_path, then))


@pytest.mark.parametrize(("form", "is_said"), [("msgspec.json:decode", True), (None, False)])
def test_cut_batch_of_a_format_that_may_change_says_what_mends_it(
    spark: SparkSession, stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str | None, is_said: bool
) -> None:
    """A function may be another one in the next run, and a registry may have more; nothing tells."""
    with monkeypatch.context() as patch:
        patch.setattr(DeltaTables, "_write", dies_at("rejected", DeltaTables._write))
        with pytest.raises(StreamingQueryException):
            write(spark, stream, tmp_path, OLD, form=form)
    said = write(spark, stream, tmp_path, OLD, form=form)
    assert any("parsed and rejected may both lack, or both have, records of " in line for line in said) == is_said
    assert_each_once(tmp_path)
    assert not any("reparse" in line for line in write(spark, stream, tmp_path, OLD, form=form))


def test_batch_that_was_never_merged_is_named_and_reparse_merges_it(
    spark: SparkSession, stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was cut off before its merge, and then another worker has handled its records."""
    shared: dict[str, Any] = {"application": stream, "leases": "hold", "failoverTime": "4s"}
    with monkeypatch.context() as patch:
        patch.setattr(MergedTable, "write", dies)
        with pytest.raises(StreamingQueryException):
            write(spark, stream, tmp_path, OLD, RULE, **shared)
    assert (ids(tmp_path), (tmp_path / "lake" / "rejected").exists()) == (list(range(40)), False)
    write(spark, stream, tmp_path / "other", OLD, **shared)
    said = write(spark, stream, tmp_path, OLD, RULE, **shared)
    assert any(line.startswith("parsed and rejected lack records of ") for line in said)
    reparse(spark, again(tmp_path, OLD, Source.RAW, RULE), print)
    assert ids(tmp_path, MERGED) == list(range(40))
    assert_each_once(tmp_path)


def test_batch_that_is_repeated_after_a_cut_is_merged(
    spark: SparkSession, stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was cut off before its merge, with `raw` and `parsed` written, and then after it."""
    for owner, name, dying in (
        (MergedTable, "write", dies),
        (DeltaTables, "_write", dies_at("rejected", DeltaTables._write)),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, dying)
            with pytest.raises(StreamingQueryException):
                write(spark, stream, tmp_path, OLD, RULE)
        assert not (tmp_path / "lake" / "rejected").exists()
    assert ids(tmp_path, MERGED) == list(range(40))
    shutil.rmtree(tmp_path / "lake" / MERGED)
    write(spark, stream, tmp_path, OLD, RULE)
    assert ids(tmp_path, MERGED) == list(range(40)), "also what the other tables hold already"
    assert_each_once(tmp_path)


def framed_lake(spark: SparkSession, folder: Path) -> None:
    """Three records in `raw`, each with a schema version of Confluent's registry."""
    (folder / "lake" / "_checkpoint" / "commits").mkdir(parents=True)
    (folder / "lake" / "_checkpoint" / "commits" / "0").write_text("v1\n{}")
    records = Records(spark, Random(1))
    records.add([for_confluent("7", b'{"id": %d, "at": 1}' % number) for number in range(3)])
    raw = with_arrival_date(records.frame(records.rows)).selectExpr("*", "cast(0 as bigint) AS batch")
    open_lake(spark, str(folder / "lake"), Sink.DELTA).merge(
        "raw", raw, Merge(on=("sequenceNumber",)), ("arrivalDate",)
    )


def test_registry_that_lacks_the_versions_of_all_of_parsed_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    framed_lake(spark, tmp_path)
    given = again(tmp_path, OLD, Source.RAW)
    with served({"/schemas/ids/7": (200, {"schema": "{}", "schemaType": "JSON"})}) as registry:
        reparse(spark, replace(given, format=f"confluent:{registry.url}"), print)
    assert ids(tmp_path) == [0, 1, 2]
    with served({}) as registry, pytest.raises(SettingsError, match=r"setting format = .*no schema version of the rec"):
        reparse(spark, replace(given, format=f"confluent:{registry.url}"), print)
    assert ids(tmp_path) == [0, 1, 2]


def test_reparse_asks_the_registry_of_its_region(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def payload_of(*_given: Any, region: str | None, **_more: Any) -> None:
        raise Killed(region)

    monkeypatch.setattr(reparsing, "payload_of", payload_of)
    with pytest.raises(Killed, match="eu-north-1"):
        reparse(spark, replace(again(tmp_path, OLD, Source.RAW), format="glue", region="eu-north-1"), print)
