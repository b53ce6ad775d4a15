"""The table `merged`, maintenance and re-parsing by the jars of Delta and Iceberg: `make test-lake`."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from sublet.errors import SettingsError
from sublet.spark.pipeline.judging import judge, parsed, with_arrival_date
from sublet.spark.pipeline.lake import Lake, open_lake
from sublet.spark.pipeline.maintain_command import MaintainSettings
from sublet.spark.pipeline.maintaining import maintain
from sublet.spark.pipeline.merge import Merge
from sublet.spark.pipeline.merge_rule import DELETED_AT, MERGED, MergeRule
from sublet.spark.pipeline.merged_table import merged_table, open_merged
from sublet.spark.pipeline.reparse_command import ReparseSettings, Source
from sublet.spark.pipeline.reparsing import IDENTITY, Reparsed, reparse
from sublet.spark.pipeline.running import run_pipeline, schema_of
from sublet.spark.pipeline.settings import Sink, pipeline_settings
from sublet.spark.pipeline.tally import PlainLines, RunTally
from sublet.system.clock import SystemClock

from infra.local import EmbeddedAws
from tests.spark.lake_session import (
    DELTA,
    DELTA_EXTENSIONS,
    ICEBERG,
    ICEBERG_EXTENSIONS,
    lake_session,
    skip_without_jars,
)
from tests.spark.merge_cases import (
    OLD,
    MergedCase,
    assert_one_record_a_row,
    assert_rewritten_by_todays_schema,
    assert_spelled_as_in_the_table,
)
from tests.spark.order_changes import BEGAN, DELETE_WHEN, SCHEMA, change, latest_orders, orders_of
from tests.spark.source_rows import Records

RULE = MergeRule(key=("id",), order_by=("updated_at",), delete_when=DELETE_WHEN)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

skip_without_jars()


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="module")
def spark(embedded_aws: EmbeddedAws, warehouse: Path) -> Iterator[SparkSession]:
    conf = {
        **DELTA,
        **ICEBERG,
        "spark.sql.extensions": f"{ICEBERG_EXTENSIONS},{DELTA_EXTENSIONS}",
        "spark.sql.catalog.lake.warehouse": str(warehouse),
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",  # VACUUM makes as many tasks: 10,000
        "spark.sql.session.timeZone": "UTC",
    }
    with lake_session(embedded_aws, conf) as session:
        yield session


@pytest.fixture(params=[Sink.DELTA, Sink.ICEBERG])
def sink(request: pytest.FixtureRequest) -> Sink:
    found: Sink = request.param
    return found


@pytest.fixture
def output(spark: SparkSession, sink: Sink, tmp_path: Path) -> str:
    if sink is Sink.DELTA:
        return str(tmp_path / "lake")
    namespace = f"lake.{tmp_path.name}"
    spark.sql(f"CREATE NAMESPACE {namespace}")
    return namespace


def table(spark: SparkSession, output: str, sink: Sink, name: str) -> list[dict[str, Any]]:
    place = f"delta.`{output}/{name}`" if sink is Sink.DELTA else f"{output}.{name}"
    return [row.asDict() for row in spark.table(place).collect()]


def utc(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """PySpark's timestamps have no zone: they are in this process's."""
    return [{**row, "updated_at": row["updated_at"].astimezone(BEGAN.tzinfo)} for row in rows]


def maintained(spark: SparkSession, output: str, sink: Sink, **given: Any) -> list[str]:
    wanted: dict[str, Any] = {
        "output": output,
        "sink": sink,
        "retention": timedelta(0),
        "tombstone_retention": timedelta(days=36_500),
        "target_size": 2**27,
        "dry_run": False,
        "spark": {},
    }
    said: list[str] = []
    maintain(open_lake(spark, output, sink), MaintainSettings(**{**wanted, **given}), SystemClock(), said.append)
    print(said)
    return said


def test_merged_has_the_latest_record_of_each_key(spark: SparkSession, sink: Sink, output: str, tmp_path: Path) -> None:
    seed = 77
    print("seed", seed)
    chance = Random(seed)
    records, schema, lake = Records(spark, chance), schema_of(spark, SCHEMA), open_lake(spark, output, sink)
    given: dict[str, Any] = {"output": output, "checkpoint": str(tmp_path), "sink": sink, "rule": RULE}
    merged = open_merged(spark, schema=schema, **given)
    insert = Merge(on=("sequenceNumber",))
    for batch in range(6):
        first = len(records.rows)
        records.add([json.dumps(change(chance, first + number, 25)) for number in range(50)])
        again = chance.sample(records.rows, 20)
        chance.shuffle(again)
        rows = records.frame([*records.rows[first:], *again] if batch else records.rows[first:])
        merged.write(parsed(judge(rows, schema)))
        lake.merge("raw", with_arrival_date(rows.dropDuplicates(["sequenceNumber"])), insert, ("arrivalDate",))
        if batch in (2, 4):
            maintained(spark, output, sink)
        assert orders_of(utc(table(spark, output, sink, MERGED))) == latest_orders(records.rows)
    before = table(spark, output, sink, MERGED)
    wider = open_merged(spark, schema=schema_of(spark, f"{SCHEMA}, note STRING"), **given)
    records.add([json.dumps({**change(chance, 10_000, 25), "id": 99, "op": "U", "note": "new"})])
    wider.write(parsed(judge(records.frame(records.rows[-1:]), schema_of(spark, f"{SCHEMA}, note STRING"))))
    notes = {row["id"]: row["note"] for row in table(spark, output, sink, MERGED)}
    assert notes == {**dict.fromkeys(sorted(row["id"] for row in before)), 99: "new"}
    assert_tombstones_go(spark, output, sink)


def assert_tombstones_go(spark: SparkSession, output: str, sink: Sink) -> None:
    """Those that are older by a day than the latest record, which is how time passes in a stream."""
    rows = table(spark, output, sink, MERGED)
    latest = max(row["approximateArrivalTimestamp"] for row in rows)
    old = {row["id"] for row in rows if row[DELETED_AT] and row[DELETED_AT] < latest - timedelta(days=1)}
    assert old, "the seed draws none"
    day = timedelta(days=1)
    dry = maintained(spark, output, sink, tombstone_retention=day, dry_run=True)
    assert any(f", {len(old)} tombstone" in line for line in dry)
    assert len(table(spark, output, sink, MERGED)) == len(rows)
    maintained(spark, output, sink, tombstone_retention=day)
    assert {row["id"] for row in table(spark, output, sink, MERGED)} == {row["id"] for row in rows} - old


def test_columns_that_the_schema_spells_otherwise_are_those_of_the_table(
    spark: SparkSession, sink: Sink, output: str, tmp_path: Path
) -> None:
    assert_spelled_as_in_the_table(spark, output, sink, str(tmp_path), lambda: table(spark, output, sink, MERGED))


def test_columns_that_the_schema_drops_are_null_in_newer_rows_of_merged(
    spark: SparkSession, sink: Sink, output: str, tmp_path: Path
) -> None:
    assert_one_record_a_row(spark, output, sink, str(tmp_path), lambda: table(spark, output, sink, MERGED))


def test_merged_row_is_written_again_by_todays_schema(
    spark: SparkSession, sink: Sink, output: str, tmp_path: Path
) -> None:
    assert_rewritten_by_todays_schema(spark, output, sink, str(tmp_path), lambda: table(spark, output, sink, MERGED))


def test_command_that_would_not_merge_is_refused_while_the_table_is_there(
    spark: SparkSession, sink: Sink, output: str, tmp_path: Path
) -> None:
    given = ReparseSettings(
        output=output, checkpoint=str(tmp_path), sink=sink, source=Source.RAW, schema=OLD, merge=None, spark={}
    )
    assert merged_table(spark, given, None) is None
    MergedCase(spark, output, sink, str(tmp_path)).write(OLD, [{"id": 1, "at": 1}])
    with pytest.raises(SettingsError, match=r"setting merge-key = None: .*remove or rename"):
        merged_table(spark, given, schema_of(spark, OLD))
    if sink is Sink.ICEBERG:
        spark.sql(f"DROP TABLE {output}.{MERGED}")
        assert merged_table(spark, given, schema_of(spark, OLD)) is None


def test_nested_column_with_a_name_that_needs_quotes_is_added(spark: SparkSession, sink: Sink, output: str) -> None:
    lake = open_lake(spark, output, sink)
    lake.merge("orders", spark.sql("SELECT 1 AS id"), Merge(on=("id",)))
    more = spark.sql("SELECT 2 AS id, named_struct('content-type', 'text') AS meta")
    lake.merge("orders", more, Merge(on=("id",)))
    found = {row["id"]: row["meta"] and row["meta"].asDict() for row in table(spark, output, sink, "orders")}
    assert found == {1: None, 2: {"content-type": "text"}}


def test_small_files_become_few(spark: SparkSession, sink: Sink, output: str) -> None:
    records, lake = Records(spark, Random(1)), open_lake(spark, output, sink)
    for _ in range(6):
        records.add(["{}"])
        rows = with_arrival_date(records.frame(records.rows[-1:]))
        lake.merge("raw", rows, Merge(on=("sequenceNumber",)), ("arrivalDate",))
    assert lake.size("raw").files == 6
    said = maintained(spark, output, sink, dry_run=True)
    assert said[0].startswith("raw: 6 files of 0.0 MB, ")
    said = maintained(spark, output, sink)
    assert said[0].startswith("raw: 6 files of 0.0 MB -> 1, ")
    assert " 0 old removed" not in said[0]
    assert len(table(spark, output, sink, "raw")) == 6


def test_records_move_between_parsed_and_rejected(spark: SparkSession, sink: Sink, output: str, tmp_path: Path) -> None:
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "3").write_text("v1\n{}")
    records, lake = Records(spark, Random(1)), open_lake(spark, output, sink)
    records.add([json.dumps({"id": 1, "note": "a"}), json.dumps({"id": 2, "note": 5}), "no JSON"])
    write_raw(lake, records, lambda frame: frame.selectExpr("*", "cast(3 as bigint) as batch"))
    records.add([json.dumps({"id": 3, "note": "b"})])
    write_raw(lake, records, lambda frame: frame.selectExpr("*", "cast(4 as bigint) as batch"))

    def again(schema: str, source: Source) -> Reparsed:
        settings = ReparseSettings(
            output=output, checkpoint=str(tmp_path), sink=sink, source=source, schema=schema, merge=None, spark={}
        )
        return reparse(spark, settings, print)

    def moved(name: str) -> Counter[str]:
        return Counter(row["sequenceNumber"] for row in table(spark, output, sink, name))

    assert again("id INT NOT NULL, note STRING", Source.RAW) == Reparsed(1, 2)
    assert (moved("parsed"), moved("rejected")) == (Counter(["95"]), Counter(["96", "97"]))
    assert again("id INT NOT NULL", Source.REJECTED) == Reparsed(1, 1)
    assert (moved("parsed"), moved("rejected")) == (Counter(["95", "96"]), Counter(["97"]))
    assert again("id INT NOT NULL, note STRING, more INT", Source.RAW) == Reparsed(1, 2)
    assert (moved("parsed"), moved("rejected")) == (Counter(["95"]), Counter(["96", "97"]))
    with pytest.raises(SettingsError, match=r"setting schema = .*note"):
        again("id INT NOT NULL, note INT", Source.REJECTED)


def test_tables_that_reparse_begins_get_nothing_twice_after_an_emptied_checkpoint(
    spark: SparkSession, embedded_aws: EmbeddedAws, sink: Sink, output: str, tmp_path: Path
) -> None:
    client, stream = embedded_aws.client("kinesis"), f"begun-{sink}-{os.getpid()}"
    client.create_stream(StreamName=stream, ShardCount=2)
    client.get_waiter("stream_exists").wait(StreamName=stream, WaiterConfig={"Delay": 1})
    for number in range(20):
        client.put_record(StreamName=stream, Data=b'{"id": %d}' % (number % 15), PartitionKey=str(number))
    client.put_record(StreamName=stream, Data=b"no JSON", PartitionKey="a")
    time.sleep(1.1)
    checkpoint = tmp_path / "checkpoint"

    def load(schema: str | None) -> None:
        given = pipeline_settings(
            output=output,
            checkpoint=str(checkpoint),
            sink=sink,
            schema=schema,
            transform=None,
            every=None,
            options={"stream": stream},
            spark={},
        )
        run_pipeline(spark, given, RunTally(), PlainLines(print), SystemClock(), lambda: False)

    load(None)
    settings = ReparseSettings(
        output=output, checkpoint=str(checkpoint), sink=sink, source=Source.RAW, schema="id INT", merge=None, spark={}
    )
    for _ in range(2):
        assert reparse(spark, settings, print) == Reparsed(20, 1)
    for log in ("offsets", "commits"):
        shutil.rmtree(checkpoint / log)
    load("id INT")
    found = {name: len(table(spark, output, sink, name)) for name in ("raw", "parsed", "rejected")}
    assert found == {"raw": 21, "parsed": 20, "rejected": 1}


def write_raw(lake: Lake, records: Records, numbered: Callable[[DataFrame], DataFrame]) -> None:
    rows = numbered(with_arrival_date(records.frame(records.rows)))
    lake.merge("raw", rows, Merge(on=IDENTITY), ("arrivalDate",))
