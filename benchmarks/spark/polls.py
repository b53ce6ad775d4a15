"""`python -m benchmarks.spark.polls`, in Spark's environment: the replay server's streams, polled and read. Prints
JSON."""

from __future__ import annotations

import json
import shutil
import sys
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from statistics import median
from tempfile import mkdtemp
from typing import Any

import boto3
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType
from sublet.protocol.kpl_format import MAGIC
from sublet.spark.read.rows import SCHEMA_DDL

import benchmarks
from benchmarks.peers import PYTHON as PEERS
from benchmarks.replay_server import IDLE, USER_RECORDS
from benchmarks.spark.session import cpu_seconds, session

ROUNDS = benchmarks.rounds(3)
CORES = 4
SUBLET, AGG = "sublet", "aws-kinesis-agg + tuples"
NOOP, PARQUET = "noop", "parquet"
UNTIL = "AT_TIMESTAMP:2026-06-01T00:00:00Z"
"""A time after all existing records, so that the tip is not looked up: the server's iterators cannot start near it."""


class Peer(DataSource):
    """What a user writes with boto3 and aws-kinesis-agg: a task per shard, which polls without pause and yields
    tuples."""

    @classmethod
    def name(cls) -> str:
        return "boto3_agg"

    def schema(self) -> str:
        return SCHEMA_DDL

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 -- Spark's interface
        return PeerReader(self.options["stream"])


class PeerReader(DataSourceReader):
    def __init__(self, stream: str) -> None:
        self.stream = stream

    def partitions(self) -> Sequence[InputPartition]:
        shards = boto3.client("kinesis").list_shards(StreamName=self.stream)["Shards"]
        return [InputPartition(shard["ShardId"]) for shard in shards]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        client: Any = boto3.client("kinesis")
        shard_id = partition.value
        iterator = client.get_shard_iterator(
            StreamName=self.stream, ShardId=shard_id, ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        while True:
            page = client.get_records(ShardIterator=iterator, Limit=10_000)
            records = page["Records"]
            if not records:
                return
            if records[0]["Data"].startswith(MAGIC):
                yield from _agg_rows(records, shard_id, self.stream)
            else:
                for record in records:
                    number, arrived = record["SequenceNumber"], record["ApproximateArrivalTimestamp"]
                    yield (
                        record["Data"],
                        record["PartitionKey"],
                        None,
                        number,
                        0,
                        arrived,
                        shard_id,
                        self.stream,
                    )
            iterator = page["NextShardIterator"]


def _agg_rows(records: Iterable[dict[str, Any]], shard_id: str, stream: str) -> Iterator[tuple[Any, ...]]:
    """boto3's records, through aws-kinesis-agg."""
    for found in _aws_kinesis_agg()(records, data_format="Boto3"):
        user = found["kinesis"]
        yield (
            b64decode(user["data"]),
            user["partitionKey"],
            user["explicitHashKey"],
            user["sequenceNumber"],
            user["subSequenceNumber"],
            user["approximateArrivalTimestamp"],
            shard_id,
            stream,
        )


def _aws_kinesis_agg() -> Callable[..., Iterable[dict[str, Any]]]:
    """Imports the library from the peers' environment; whatever this environment has too is imported from here."""
    found = map(str, PEERS.parent.parent.glob("lib/python3*/site-packages"))
    sys.path += [folder for folder in found if folder not in sys.path]
    from aws_kinesis_agg.deaggregator import iter_deaggregate_records  # noqa: PLC0415 -- not a dependency of ours

    return iter_deaggregate_records  # type: ignore[no-any-return]


def rows_of(spark: SparkSession, way: str, stream: str) -> DataFrame:
    if way == AGG:
        return spark.read.format("boto3_agg").option("stream", stream).load()
    return spark.read.format("sublet").options(stream=stream, endPosition=UNTIL).load()


def run(spark: SparkSession, way: str, stream: str, sink: str) -> float:
    """CPU seconds of the JVM and the Python workers."""
    folder = mkdtemp()
    before = cpu_seconds()
    writer = rows_of(spark, way, stream).write.mode("overwrite")
    (writer.format("noop").save if sink == NOOP else partial(writer.parquet, folder))()
    took = cpu_seconds() - before
    if sink == PARQUET and (found := spark.read.parquet(folder).count()) != USER_RECORDS[stream]:
        raise ValueError(f"{way} read {found} of {USER_RECORDS[stream]} rows of {stream}")
    shutil.rmtree(folder)
    return took


def measured(spark: SparkSession, ways: Sequence[str]) -> dict[str, dict[str, dict[str, float]]]:
    """Medians by stream, sink and way, of runs in turns."""
    taken: dict[str, dict[str, dict[str, list[float]]]] = {}
    for number in range(ROUNDS + 1):  # the first is a warm-up
        for stream in USER_RECORDS:
            for sink in (NOOP, PARQUET):
                for way in ways:
                    of = taken.setdefault(stream, {}).setdefault(sink, {}).setdefault(way, [])
                    seconds = run(spark, way, stream, sink)
                    of += [seconds] if number else []
    return {s: {k: {w: median(t) for w, t in v.items()} for k, v in of.items()} for s, of in taken.items()}


def empty_reads(spark: SparkSession, ways: Sequence[str]) -> dict[str, float]:
    """The same for a stream without records: the fixed cost of a read."""
    taken: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(ROUNDS + 1):
        for way in ways:
            taken[way].append(run(spark, way, IDLE, NOOP))
    return {way: median(seconds[1:]) for way, seconds in taken.items()}


def main() -> None:
    ways = [SUBLET, *([AGG] if PEERS.exists() else [])]
    spark = session(CORES, "2g")
    spark.dataSource.register(Peer)
    reads, kept = measured(spark, ways), empty_reads(spark, ways)
    spark.stop()
    spark = session(CORES, "2g", keeps_workers=False)
    spark.dataSource.register(Peer)
    print(json.dumps({"reads": reads, "kept": kept, "new": empty_reads(spark, ways)}))
    spark.stop()


if __name__ == "__main__":
    main()
