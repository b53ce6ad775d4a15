"""One checkpoint, started again with each of Spark's triggers; those that a source in Python cannot support are
refused."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter
from sublet.metric_names import Metric
from sublet.spark import LagListener, lag
from sublet.system.clock import SystemClock
from sublet.testing.memory import MemoryMetrics

from infra.local import EmbeddedAws
from tests.exploring import explores
from tests.spark.kinesis_stream import BusyStream
from tests.spark.local_session import local_session

pytestmark = pytest.mark.timeout(400)

ENDING: tuple[dict[str, Any], ...] = ({"availableNow": True}, {"once": True})
"""Triggers of queries that end by themselves."""
RUNNING: tuple[dict[str, Any], ...] = ({}, {"processingTime": "1 second"})
"""Triggers of queries that are stopped."""


@pytest.fixture(scope="module")
def spark(embedded_aws: EmbeddedAws) -> Iterator[SparkSession]:
    with local_session(embedded_aws) as session:
        yield session


@pytest.fixture(scope="module")
def stream(embedded_aws: EmbeddedAws) -> BusyStream:
    return BusyStream(embedded_aws.client("kinesis"), f"triggers-{os.getpid()}", 5)


def start(spark: SparkSession, stream: BusyStream, folder: Path, **trigger: Any) -> Any:
    writer = (
        spark.readStream.format("sublet")
        .options(stream=stream.name, listInterval="1s")
        .load()
        .writeStream.format("parquet")
        .option("path", str(folder / "rows"))
        .option("checkpointLocation", str(folder / "checkpoint"))
    )
    return (writer.trigger(**trigger) if trigger else writer).start()


def wait_until(holds: Callable[[], bool], query: Any) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert query.exception() is None, query.exception()
        assert time.monotonic() < deadline, "waited for two minutes"
        time.sleep(0.2)


@explores
def test_trigger_goes_on_where_the_one_before_ended(spark: SparkSession, stream: BusyStream, tmp_path: Path) -> None:
    metrics = MemoryMetrics()
    listener = LagListener(spark.streams, stream.name, metrics, SystemClock())
    spark.streams.addListener(listener)
    for trigger in (ENDING[0], RUNNING[0], ENDING[1], RUNNING[1]):
        stream.produce()
        if trigger in RUNNING:
            stream.reshard()
            stream.produce()
        time.sleep(1.1)  # what is younger may be left for the next batch
        query = start(spark, stream, tmp_path, **trigger)
        if trigger in ENDING:
            query.awaitTermination()
        wait_until(lambda: sum(metrics.values(Metric.RECORDS)) >= len(stream.produced), query)
        assert {each.stream for each in lag(query)} == {stream.name}
        query.stop()
    rows = spark.read.schema("data binary").parquet(str(tmp_path / "rows")).collect()
    assert sorted((row["data"] for row in rows), key=int) == stream.produced, "exactly once"
    shards = {m.shard_id for m in metrics.measurements if m.metric is Metric.MILLIS_BEHIND_LATEST}
    assert {shard["ShardId"] for shard in stream.open_shards()} <= shards
    spark.streams.removeListener(listener)


@explores
@pytest.mark.parametrize(
    ("trigger", "words"),
    [
        ({"continuous": "1 second"}, "does not support continuous processing"),
        pytest.param(
            {"realTime": "5 minutes"},
            "real-time mode .* input stream .* is not supported",
            marks=pytest.mark.skipif(
                "realTime" not in signature(DataStreamWriter.trigger).parameters,
                reason="Spark 4.1 has this trigger",
            ),
        ),
    ],
    ids=["continuous", "realTime"],
)
def test_spark_refuses_triggers_that_a_python_source_cannot_serve(
    spark: SparkSession, stream: BusyStream, tmp_path: Path, trigger: dict[str, str], words: str
) -> None:
    writer = (
        spark.readStream.format("sublet")
        .option("stream", stream.name)
        .load()
        .writeStream.format("noop")
        .outputMode("update")
    )
    spark.conf.set("spark.sql.streaming.realTimeMode.allowlistCheck", "false")  # of sinks too
    try:
        with pytest.raises(PySparkException, match=words):
            writer.option("checkpointLocation", str(tmp_path)).trigger(**trigger).start().awaitTermination(60)
    finally:
        spark.conf.unset("spark.sql.streaming.realTimeMode.allowlistCheck")
