"""The part of `spark_polls` that runs in Spark's environment, inside Spark and its Python workers: the replay server's
streams, polled and read. `python -m benchmarks.polls_on_spark` prints JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import mkdtemp
from threading import Thread, get_ident
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


def session(cores: int = 1, memory: str = "1g", *, keeps_workers: bool = True) -> SparkSession:
    """`keeps_workers`: from task to task, as Spark does; otherwise each task has a Python worker of its own."""
    spark = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", memory)
        .config("spark.python.worker.reuse", str(keeps_workers).lower())
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def cpu_seconds() -> float:
    """CPU seconds of this session's processes so far, including those that have ended: the JVM, Spark's Python
    workers, and this program, without the cost of measuring. From Linux' figures. A worker that ends is not always
    waited for by its parent, which would then have its time. So all are measured a few times a second, and the last
    value of each is kept."""
    if not _taken:
        Thread(target=_watch, daemon=True).start()
    _look()
    return sum(list(_taken.values())) / os.sysconf("SC_CLK_TCK") - sum(list(_looks.values()))


_taken: dict[tuple[str, str], int] = {}
"""Ticks, by process: its number and when it began."""

_looks: dict[int, float] = {}
"""CPU seconds of the measuring itself, by thread; otherwise a longer run by the clock would seem to have used more."""


def _watch() -> None:
    while True:
        time.sleep(0.2)
        _look()


def _look() -> None:
    since, own = time.thread_time(), os.getsid(0)
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == own:
                    _taken[entry.name, fields[19]] = int(fields[11]) + int(fields[12])
    _looks[get_ident()] = _looks.get(get_ident(), 0.0) + time.thread_time() - since


if __name__ == "__main__":
    main()
