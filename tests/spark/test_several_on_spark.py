"""Several streams inside Spark: one query, with rows of each, through restarts, a batch read, and leases."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, datasource
from sublet.spark import drain, lag

from infra.local import EmbeddedAws
from tests.exploring import explores
from tests.spark.kinesis_stream import BusyStream
from tests.spark.local_session import local_session

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def spark(embedded_aws: EmbeddedAws) -> Iterator[SparkSession]:
    with local_session(embedded_aws) as session:
        yield session


class Streams:
    """Some, with a prefix of their own."""

    def __init__(self, aws: EmbeddedAws, prefix: str) -> None:
        self.aws = aws
        self.prefix = f"{prefix}-{os.getpid()}"
        self.streams: list[BusyStream] = []

    def create(self) -> BusyStream:
        number = len(self.streams)
        self.streams.append(BusyStream(self.aws.client("kinesis"), f"{self.prefix}-{number}", number))
        return self.streams[-1]

    @property
    def produced(self) -> list[tuple[str, int]]:
        return sorted((each.name, int(data)) for each in self.streams for data in each.produced)


def rows_of(rows: DataFrame) -> list[tuple[str, int]]:
    return sorted((row["stream"], int(row["data"])) for row in rows.select("stream", "data").collect())


def run_available(spark: SparkSession, folder: Path, **options: str) -> Any:
    rows = spark.readStream.format("sublet").options(availableNow="true", **options).load()
    at = {"path": str(folder / "rows"), "checkpointLocation": str(folder / "checkpoint")}
    query = rows.writeStream.format("parquet").options(**at).start()
    drain(query)
    return query


def check_that_a_filter_on_the_stream_reads_no_other(spark: SparkSession, pattern: str, name: str) -> None:
    def some() -> DataFrame:
        return spark.read.format("sublet").option("stream", pattern).load().where(f"stream = '{name}'")

    unfiltered, tasks = rows_of(some()), some().rdd.getNumPartitions()
    assert {stream for stream, _ in unfiltered} == {name}
    if not hasattr(datasource, "EqualTo"):
        return  # Spark 4.0 pushes no filters down to sources in Python
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        assert rows_of(some()) == unfiltered
        assert some().rdd.getNumPartitions() < tasks
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


@explores
def test_one_stream_then_two_then_those_of_a_pattern(
    spark: SparkSession, embedded_aws: EmbeddedAws, tmp_path: Path
) -> None:
    streams = Streams(embedded_aws, "several")
    one, two = streams.create(), streams.create()
    one.produce()
    two.produce()
    run_available(spark, tmp_path, stream=one.name)
    one.reshard()
    one.produce()
    time.sleep(1.1)
    run_available(spark, tmp_path, stream=f"{one.name},{two.name}", maxRecordsPerTrigger="50")
    streams.create().produce()
    two.reshard()
    two.produce()
    time.sleep(1.1)
    query = run_available(spark, tmp_path, stream=f"{streams.prefix}-*")
    assert rows_of(spark.read.parquet(str(tmp_path / "rows"))) == streams.produced
    assert {each.stream for each in lag(query)} <= {each.name for each in streams.streams}
    told = json.loads(query.lastProgress.json)["sources"][0]["latestOffset"]
    assert told["maxMillisBehindLatest"] == 0
    batch = spark.read.format("sublet").option("stream", f"{streams.prefix}-*").load()
    assert rows_of(batch) == streams.produced
    check_that_a_filter_on_the_stream_reads_no_other(spark, f"{streams.prefix}-*", two.name)
    with pytest.raises(PySparkException, match="is one of several streams"):
        run_available(spark, tmp_path, stream=one.name)


def test_query_of_several_streams_holds_the_leases_of_an_application(
    spark: SparkSession, embedded_aws: EmbeddedAws, tmp_path: Path
) -> None:
    streams = Streams(embedded_aws, "leased")
    one, two = streams.create(), streams.create()
    one.produce()
    two.produce()
    application = f"several-{os.getpid()}"
    given = {
        "stream": f"{streams.prefix}-*",
        "application": application,
        "leases": "hold",
        "failoverTime": "6s",
        "checkpointLocation": str(tmp_path / "checkpoint"),
    }
    run_available(spark, tmp_path, **given)
    two.produce()
    time.sleep(1.1)
    run_available(spark, tmp_path, **given)
    assert rows_of(spark.read.parquet(str(tmp_path / "rows"))) == streams.produced
    items = embedded_aws.client("dynamodb").scan(TableName=application)["Items"]
    named = {item["streamName"]["S"].split(":")[1] for item in items}
    assert named == {one.name, two.name}
    assert all("leaseOwner" not in item or "NULL" in item["leaseOwner"] for item in items), "all are released"
    assert all(item["checkpoint"]["S"].isdecimal() for item in items)


def test_a_stream_that_is_named_and_not_there_is_refused_at_load(
    spark: SparkSession, embedded_aws: EmbeddedAws
) -> None:
    name = Streams(embedded_aws, "there").create().name
    for read in (spark.read, spark.readStream):
        with pytest.raises(PySparkException) as refused:
            read.format("sublet").option("stream", f"{name},nowhere").load()
        assert "sublet.errors.StreamNotFound: there is no stream nowhere" in str(refused.value).splitlines()[0]
