"""The table `merged` compared with `raw` by a model: after reshards, repeats and late records, while the tables are
maintained.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from sublet.errors import SettingsError
from sublet.spark.pipeline.lake import open_lake
from sublet.spark.pipeline.maintain_command import MaintainSettings
from sublet.spark.pipeline.maintaining import maintain
from sublet.spark.pipeline.merge_rule import MERGED, MergeRule
from sublet.spark.pipeline.merged_table import check_condition, merged_table, open_merged
from sublet.spark.pipeline.running import run_pipeline, schema_of
from sublet.spark.pipeline.settings import PipelineSettings, Sink, pipeline_settings
from sublet.spark.pipeline.tally import PlainLines, RunTally
from sublet.system.clock import SystemClock

from infra.local import EmbeddedAws
from tests.exploring import explores
from tests.spark.local_session import local_session
from tests.spark.merge_cases import (
    OLD,
    MergedCase,
    assert_one_record_a_row,
    assert_rewritten_by_todays_schema,
    assert_spelled_as_in_the_table,
)
from tests.spark.order_changes import DELETE_WHEN, SCHEMA, OrderStream, latest_orders, orders_of

RULE = MergeRule(key=("id",), order_by=("updated_at",), delete_when=DELETE_WHEN)
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def spark(embedded_aws: EmbeddedAws) -> Iterator[SparkSession]:
    with local_session(embedded_aws) as session:
        session.conf.set("spark.sql.session.timeZone", "UTC")
        yield session


def settings(stream: str, folder: Path, **given: Any) -> PipelineSettings:
    wanted: dict[str, Any] = {
        "output": str(folder / "lake"),
        "checkpoint": None,
        "sink": Sink.DELTA,
        "schema": SCHEMA,
        "transform": None,
        "every": None,
        "options": {"stream": stream, "maxRecordsPerTrigger": "120"},
        "spark": {},
        "merge": RULE,
    }
    return pipeline_settings(**{**wanted, **given})


def run(spark: SparkSession, given: PipelineSettings) -> RunTally:
    tally = RunTally()
    run_pipeline(spark, given, tally, PlainLines(print), SystemClock(), lambda: False)
    return tally


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DeltaTable(str(folder / "lake" / table)).to_pyarrow_table().to_pylist()
    return found


def assert_as_the_model_says(folder: Path) -> None:
    assert orders_of(rows(folder, MERGED)) == latest_orders(rows(folder, "raw"))


def forget_last_commit(folder: Path) -> None:
    """As if Spark is killed before it has noted the batch as done."""
    commits = folder / "lake" / "_checkpoint" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    for note in commits.glob(f"*{last}*"):  # with its checksum
        note.unlink()


@explores
def test_merged_has_the_latest_record_of_each_key(
    spark: SparkSession, embedded_aws: EmbeddedAws, tmp_path: Path
) -> None:
    """While maintenance compacts the tables again and again."""
    seed = 20_260
    print("seed", seed)
    stream = OrderStream(embedded_aws.client("kinesis"), f"orders-{os.getpid()}-{time.time_ns()}", seed)
    given, over, maintained = settings(stream.name, tmp_path), Event(), list[str]()

    def maintain_again_and_again() -> None:
        lake = open_lake(spark, given.output, Sink.DELTA)
        while not over.wait(0.2):
            if "raw" in lake.names():
                maintain(lake, daily(given), SystemClock(), maintained.append)

    beside = Thread(target=maintain_again_and_again)
    beside.start()
    try:
        for _ in range(2):
            stream.produce()
            stream.reshard()
            stream.produce()
            time.sleep(1.1)
            assert run(spark, given).rows[MERGED] > 0
            assert_as_the_model_says(tmp_path)
            forget_last_commit(tmp_path)
    finally:
        over.set()
        beside.join()
    assert [line for line in maintained if " -> " in line], "nothing was maintained meanwhile"
    run(spark, given)
    assert Counter(row["data"] for row in rows(tmp_path, "raw")) == Counter(stream.produced)
    assert_as_the_model_says(tmp_path)
    merges_again(spark, tmp_path, given, Random(seed))
    assert_as_the_model_says(tmp_path)


def merges_again(spark: SparkSession, folder: Path, given: PipelineSettings, chance: Random) -> None:
    """Merges records that were merged long ago once more."""
    parsed = DeltaTable(str(folder / "lake" / "parsed")).to_pyarrow_table()
    old = parsed.take(chance.sample(range(parsed.num_rows), 100))
    table = open_merged(
        spark,
        output=given.output,
        checkpoint=given.checkpoint,
        sink=Sink.DELTA,
        rule=RULE,
        schema=schema_of(spark, SCHEMA),
    )
    table.write(spark.createDataFrame(old.drop_columns(["batch"])))


def daily(given: PipelineSettings) -> MaintainSettings:
    day = timedelta(days=1)
    return MaintainSettings(
        output=given.output,
        sink=given.sink,
        retention=day,
        tombstone_retention=day,
        target_size=2**27,
        dry_run=False,
        spark={},
    )


@explores
@pytest.mark.parametrize("condition", ["op =", "missing = 'D'", "count(op) > 1", "amount"])
def test_a_condition_that_is_none_is_refused_by_name(spark: SparkSession, condition: str) -> None:
    rule = MergeRule(key=("id",), order_by=("updated_at",), delete_when=condition)
    with pytest.raises(SettingsError, match="setting delete-when = "):
        check_condition(spark, rule, schema_of(spark, SCHEMA))


def test_columns_that_the_schema_spells_otherwise_are_those_of_the_table(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "lake")
    assert_spelled_as_in_the_table(spark, place, Sink.DELTA, str(tmp_path), lambda: rows(tmp_path, MERGED))


def test_columns_that_the_schema_drops_are_null_in_newer_rows_of_merged(spark: SparkSession, tmp_path: Path) -> None:
    assert_one_record_a_row(spark, str(tmp_path / "lake"), Sink.DELTA, str(tmp_path), lambda: rows(tmp_path, MERGED))


def test_merged_row_is_written_again_by_todays_schema(spark: SparkSession, tmp_path: Path) -> None:
    assert_rewritten_by_todays_schema(
        spark, str(tmp_path / "lake"), Sink.DELTA, str(tmp_path), lambda: rows(tmp_path, MERGED)
    )


def test_run_that_would_not_merge_is_refused_while_the_table_is_there(spark: SparkSession, tmp_path: Path) -> None:
    MergedCase(spark, str(tmp_path / "lake"), Sink.DELTA, str(tmp_path)).write(OLD, [{"id": 1, "at": 1}])
    for schema in (SCHEMA, None):
        with pytest.raises(SettingsError, match=r"setting merge-key = None: .*remove or rename"):
            run(spark, settings("orders", tmp_path, merge=None, schema=schema))
    (tmp_path / "lake" / MERGED).rename(tmp_path / "lake" / "merged_before")
    assert merged_table(spark, settings("orders", tmp_path, merge=None), schema_of(spark, SCHEMA)) is None


def test_another_key_for_the_same_table_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    schema = schema_of(spark, SCHEMA)

    def opened(*key: str) -> None:
        open_merged(
            spark,
            output=str(tmp_path),
            checkpoint=str(tmp_path / "checkpoint"),
            sink=Sink.DELTA,
            rule=MergeRule(key=key, order_by=("updated_at",)),
            schema=schema,
        )

    opened("ID")
    opened("id")
    with pytest.raises(SettingsError, match=r"setting merge-key = 'id, op': .*id, as the table merged has it"):
        opened("id", "op")
