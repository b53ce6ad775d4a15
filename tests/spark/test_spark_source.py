"""The source inside Spark: found by itself, read as a batch and as a stream, wrong uses refused by name."""

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
from sublet.protocol.aggregation import aggregate
from sublet.spark import apply_handler, drain, lag

from infra.local import EmbeddedAws
from tests.contract.scripted_service import error, scripted_service
from tests.exploring import explores, first
from tests.spark.kinesis_stream import BusyStream
from tests.spark.local_session import local_session

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the handler writes; its process gets the folder from the environment."""
    return tmp_path_factory.mktemp("recordings")


@pytest.fixture(scope="module")
def spark(embedded_aws: EmbeddedAws, recordings: Path) -> Iterator[SparkSession]:
    with local_session(embedded_aws, RECORDINGS=str(recordings)) as session:
        yield session


@pytest.fixture(scope="module")
def stream(embedded_aws: EmbeddedAws) -> BusyStream:
    """Three generations of shards, with records in each."""
    busy = BusyStream(embedded_aws.client("kinesis"), f"orders-{os.getpid()}", 1)
    for _ in range(3):
        busy.produce()
        busy.reshard()
        busy.produce()
    return busy


def numbers(rows: DataFrame) -> list[bytes]:
    return sorted((row["data"] for row in rows.select("data").collect()), key=int)


def read(spark: SparkSession, stream: BusyStream, **options: str) -> DataFrame:
    return spark.read.format("sublet").options(stream=stream.name, **options).load()


def read_stream(spark: SparkSession, stream: BusyStream, **options: str) -> DataFrame:
    return spark.readStream.format("sublet").options(stream=stream.name, **options).load()


def run_available(spark: SparkSession, stream: BusyStream, folder: Path, **options: str) -> Any:
    rows = read_stream(spark, stream, availableNow="true", **options)
    query = (
        rows.writeStream.format("parquet")
        .option("path", str(folder / "rows"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )
    drain(query)
    return query


def test_batch_from_horizon_to_tip(spark: SparkSession, stream: BusyStream) -> None:
    rows = read(spark, stream)
    assert rows.columns == [
        *("data", "partitionKey", "explicitHashKey", "sequenceNumber", "subSequenceNumber"),
        *("approximateArrivalTimestamp", "shardId", "stream"),
    ]
    assert numbers(rows) == stream.produced
    aggregated = rows.where("subSequenceNumber > 0")
    assert aggregated.count() == 9 * 6


@explores
@pytest.mark.skipif(not hasattr(datasource, "EqualTo"), reason="Spark 4.1 has filters for sources in Python")
def test_filters_are_pushed_down_when_sparks_switch_is_on(spark: SparkSession, stream: BusyStream) -> None:
    rows = read(spark, stream)
    some = [row["shardId"] for row in rows.select("shardId").distinct().collect()][:1]
    condition = f"shardId = '{some[0]}' and approximateArrivalTimestamp > timestamp'2020-01-01 00:00:00'"
    expected = numbers(rows.where(condition))
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        pushed = read(spark, stream).where(condition)
        assert pushed.rdd.getNumPartitions() == 1
        assert numbers(pushed) == expected
        assert read(spark, stream).where("approximateArrivalTimestamp > timestamp'2100-01-01 00:00:00'").count() == 0
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_available_now_and_again(spark: SparkSession, stream: BusyStream, tmp_path: Path) -> None:
    """A second run continues where the first ended, with a limit of its own; children came after their parents."""
    query = run_available(spark, stream, tmp_path)
    stream.produce()
    time.sleep(1.1)
    run_available(spark, stream, tmp_path, maxBytesPerTrigger="2000")
    assert numbers(spark.read.parquet(str(tmp_path / "rows"))) == stream.produced
    progress = json.loads(query.lastProgress.json)
    assert progress["sources"][0]["latestOffset"]["maxMillisBehindLatest"] == 0
    assert {each.stream for each in lag(query)} == {stream.name}


@explores
@pytest.mark.parametrize("damage", ["half a line", "no shards"])
def test_a_damaged_offset_is_named_in_the_first_line(
    spark: SparkSession, stream: BusyStream, tmp_path: Path, damage: str
) -> None:
    """PySpark parses the JSON itself, before we see it."""
    run_available(spark, stream, tmp_path)
    offsets = tmp_path / "checkpoint" / "offsets"
    last = max((file for file in offsets.iterdir() if file.name.isdecimal()), key=lambda file: int(file.name))
    text = last.read_text()
    cut = text[: len(text) - 40] if damage == "half a line" else text[: text.index('"shards"')] + '"shards": {}}'
    last.write_text(cut)
    (offsets / f".{last.name}.crc").unlink()
    with pytest.raises(PySparkException) as refused:
        run_available(spark, stream, tmp_path)
    assert "sublet.errors.OffsetMalformed: the checkpoint's offset " in str(refused.value).splitlines()[0]
    assert "Traceback" not in str(refused.value)


@explores
def test_an_empty_stream(spark: SparkSession, embedded_aws: EmbeddedAws, tmp_path: Path) -> None:
    empty = BusyStream(embedded_aws.client("kinesis"), f"empty-{os.getpid()}", 1)
    assert read(spark, empty).count() == 0
    run_available(spark, empty, tmp_path)
    assert run_available(spark, empty, tmp_path).exception() is None


def test_a_stream_created_again_is_refused(spark: SparkSession, embedded_aws: EmbeddedAws, tmp_path: Path) -> None:
    client = embedded_aws.client("kinesis")
    first = BusyStream(client, f"again-{os.getpid()}", 1)
    first.produce()
    run_available(spark, first, tmp_path)
    client.delete_stream(StreamName=first.name)
    client.get_waiter("stream_not_exists").wait(StreamName=first.name, WaiterConfig={"Delay": 1})
    time.sleep(1.1)
    second = BusyStream(client, first.name, 2)
    second.produce()
    with pytest.raises(PySparkException, match="StreamRecreated"):
        run_available(spark, second, tmp_path)


def test_aggregates_of_the_other_shard_are_dropped_as_in_kcl(
    spark: SparkSession, embedded_aws: EmbeddedAws, tmp_path: Path
) -> None:
    client = embedded_aws.client("kinesis")
    busy = BusyStream(client, f"strays-{os.getpid()}", 1)
    stray = aggregate([("k", "0", b"1"), ("k", str(2**128 - 1), b"2")])
    client.put_record(StreamName=busy.name, PartitionKey="k", ExplicitHashKey="0", Data=stray)
    time.sleep(
        1.1
    )  # Kinesis sends its time in whole seconds: a description within the same one is not known to be younger
    assert numbers(read(spark, busy)) == []
    assert numbers(read(spark, busy, hashRangeFilter="off")) == [b"1", b"2"]


def test_aggregates_are_kept_where_the_stream_may_have_placed_them_itself(
    spark: SparkSession, embedded_aws: EmbeddedAws, tmp_path: Path
) -> None:
    """The emulator's on-demand streams do not report their record distribution: it may be AUTO."""
    client, name = embedded_aws.client("kinesis"), f"placed-{os.getpid()}"
    client.create_stream(StreamName=name, StreamModeDetails={"StreamMode": "ON_DEMAND"})
    client.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})
    placed = aggregate([("k", "0", b"1"), ("k", str(2**128 - 1), b"2")])
    client.put_record(StreamName=name, PartitionKey="k", ExplicitHashKey="0", Data=placed)
    assert numbers(spark.read.format("sublet").options(stream=name).load()) == [b"1", b"2"]
    rows = spark.readStream.format("sublet").options(stream=name, availableNow="true").load()
    at = {"path": str(tmp_path / "rows"), "checkpointLocation": str(tmp_path / "checkpoint")}
    drain(rows.writeStream.format("parquet").options(**at).start())
    assert numbers(spark.read.parquet(str(tmp_path / "rows"))) == [b"1", b"2"]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("startPositoin", "LATEST", "did you mean startPosition"),
        ("startingPosition", "LATEST", r'here \.option\("startPosition", "LATEST"\)'),
        ("kinesis.startingPosition", "LATEST", r'here \.option\("startPosition", "LATEST"\)'),
        ("endpointUrl", "localhost:4567", "a URL with its scheme"),
    ],
)
def test_a_wrong_option_is_refused_at_load(spark: SparkSession, name: str, value: str, words: str) -> None:
    with pytest.raises(PySparkException, match=words):
        spark.readStream.format("sublet").options(**{"stream": "orders", name: value}).load()


@explores
def test_a_stream_that_is_not_there_is_named_at_load_in_the_first_line(spark: SparkSession) -> None:
    for read in (spark.read, spark.readStream):
        with pytest.raises(PySparkException) as refused:
            read.format("sublet").option("stream", "nowhere").load()
        assert "sublet.errors.StreamNotFound: there is no stream nowhere" in str(refused.value).splitlines()[0]
        assert "Traceback" not in str(refused.value)


def test_a_permission_that_is_denied_is_named_at_load_in_the_first_line(spark: SparkSession) -> None:
    with scripted_service() as service:
        service.will("DescribeStreamSummary", error("AccessDeniedException"))
        with pytest.raises(PySparkException) as refused:
            spark.readStream.format("sublet").options(stream="orders", endpointUrl=service.url).load()
    assert "sublet.errors.StreamAccessDenied: " in str(refused.value).splitlines()[0]
    assert "Traceback" not in str(refused.value)


@explores
def test_query_exception_begins_with_the_settings_error(
    spark: SparkSession, stream: BusyStream, tmp_path: Path
) -> None:
    moment = "AT_TIMESTAMP:2026-01-31T08:00:00Z"
    with pytest.raises(PySparkException) as refused:
        run_available(spark, stream, tmp_path, endPosition=moment)
    assert "SettingsError: setting endPosition" in str(refused.value).splitlines()[0]
    assert "Traceback" not in str(refused.value)


@pytest.mark.parametrize("aggregate", first(1, ["true", "false"]))
def test_written_as_a_batch_and_as_a_stream_and_read_back(
    spark: SparkSession, embedded_aws: EmbeddedAws, stream: BusyStream, tmp_path: Path, aggregate: str
) -> None:
    client = embedded_aws.client("kinesis")
    target = BusyStream(client, f"target-{aggregate}-{os.getpid()}", 1)
    rows = read(spark, stream).select("data", "partitionKey", "explicitHashKey")
    rows.write.format("sublet").options(stream=target.name, aggregate=aggregate).mode("append").save()
    assert numbers(read(spark, target)) == stream.produced
    records = read(spark, target).select("sequenceNumber").distinct().count()
    assert (records < len(stream.produced) / 4) == (aggregate == "true")

    query = (
        read_stream(spark, stream, availableNow="true")
        .select("data", "partitionKey")
        .writeStream.format("sublet")
        .options(stream=target.name, aggregate=aggregate, checkpointLocation=str(tmp_path))
        .queryName("copy")
        .start()
    )
    drain(query)
    assert numbers(read(spark, target)) == sorted(2 * stream.produced, key=int)


def test_a_column_that_would_be_lost_is_refused(spark: SparkSession, stream: BusyStream) -> None:
    with pytest.raises(PySparkException, match="select only data, partitionKey, explicitHashKey"):
        read(spark, stream).write.format("sublet").option("stream", stream.name).mode("append").save()
    rows = read(spark, stream).select("data", "partitionKey")
    with pytest.raises(PySparkException, match="cannot be replaced"):
        rows.write.format("sublet").option("stream", stream.name).mode("overwrite").save()


def test_the_fleets_handler_runs_unchanged_in_shard_order(
    spark: SparkSession, stream: BusyStream, recordings: Path
) -> None:
    """It fails once for each shard: those batches come again, and no record twice."""
    handled = apply_handler(read_stream(spark, stream, availableNow="true"), "tests.spark.recording_handler:handle")
    query = (
        handled.writeStream.format("parquet")
        .option("path", str(recordings / "handled"))
        .option("checkpointLocation", str(recordings / "checkpoint"))
        .start()
    )
    drain(query)
    files = [file for file in recordings.glob("shardId-*") if not file.suffix]
    seen = [[int(line) for line in file.read_bytes().split()] for file in files]
    assert sorted(number for numbers in seen for number in numbers) == list(range(len(stream.produced)))
    calls = spark.read.parquet(str(recordings / "handled")).collect()
    assert sum(row["records"] for row in calls) == len(stream.produced)
    assert {row["shardId"] for row in calls} == {file.name for file in files}
