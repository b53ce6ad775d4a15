"""The part of `spark_slots` that runs in Spark's environment. `python -m benchmarks.slots_on_spark` prints JSON."""

from __future__ import annotations

import json
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from http.client import HTTPConnection
from shutil import rmtree
from statistics import median
from tempfile import mkdtemp
from threading import Event
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import boto3
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from sublet.aws.kinesis.shapes import decode_records_reply
from sublet.protocol.records import StreamRecord
from sublet.protocol.stream_info import NOT_DESCRIBED
from sublet.spark.option_table import parse_options
from sublet.spark.options import UseOfLeases
from sublet.spark.plan.strays import StrayFilter
from sublet.spark.read.connection import connect_driver, connect_task
from sublet.spark.read.reading import PAGE_BYTES
from sublet.spark.read.rows import SCHEMA_DDL, Rows
from sublet.spark.source.stream_read import StreamReader
from sublet.system.clock import SystemClock

import benchmarks
from benchmarks.paced_server import BACKLOG, BUSY, IDLE, RECORD_BYTES
from benchmarks.polls_on_spark import cpu_seconds, session
from benchmarks.replay_server import iterator

ROUNDS = benchmarks.rounds(3)
UNTIL = "AT_TIMESTAMP:2026-06-01T00:00:00Z"
"""A time after all records of a backlog."""

ROWS = 1024
"""Of a prebuilt batch, as in one of ours with records of 1 KB."""

ALONE = f"{BACKLOG}-8-4096"
"""Read with a task for each shard, as without `maxPartitions`: enough shards to see how much of a slot that uses."""


class Read(NamedTuple):
    """Seconds by the clock, CPU seconds of the JVM and the Python workers, and the part of the slots' cores that was
    used. On a busy machine other programs use some of it.
    """

    seconds: float
    cpu_seconds: float
    busy: float


def read(spark: SparkSession, stream: str, slots: int, partitions: int | None) -> Read:
    options = {"stream": stream, "endPosition": UNTIL, **({"maxPartitions": str(partitions)} if partitions else {})}
    rows = spark.read.format("sublet").options(**options).load()
    return measured(rows.write.mode("overwrite").format("noop").save, slots)


def measured(work: Callable[[], object], slots: int = 1) -> Read:
    before, began = cpu_seconds(), time.monotonic()
    work()
    seconds, cpu = time.monotonic() - began, cpu_seconds() - before
    return Read(seconds, cpu, cpu / (seconds * min(slots, os.cpu_count() or slots)))


def parquet(spark: SparkSession, stream: str) -> Callable[[], object]:
    """Writes the stream's rows, and returns what reads them."""
    folder = mkdtemp()
    rows = spark.read.format("sublet").options(stream=stream, endPosition=UNTIL, maxPartitions="8").load()
    rows.write.mode("overwrite").parquet(folder)
    if (found := spark.read.parquet(folder).count()) != records_of(stream):
        raise ValueError(f"{found} of {records_of(stream)} rows of {stream} were read")
    return partial(_read_parquet, spark, folder)


def _read_parquet(spark: SparkSession, folder: str) -> None:
    spark.read.parquet(folder).write.mode("overwrite").format("noop").save()


def records_of(stream: str) -> int:
    _, shards, each = stream.split("-")
    return int(shards) * int(each)


def receiving(stream: str) -> float:
    """CPU seconds to receive the stream's pages over a bare connection, without a look at them."""
    _, shards, each = stream.split("-")
    name = f"{BACKLOG}-{int(shards) + 1}-{each}"  # the same records, at a pace of its own
    url = urlsplit(os.environ["AWS_ENDPOINT_URL_KINESIS"])
    connection = HTTPConnection(url.hostname or "", url.port)
    headers = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": "Kinesis_20131202.GetRecords"}
    limit = min(PAGE_BYTES // RECORD_BYTES, int(each))
    began = time.process_time()
    for shard in range(int(shards)):
        request = {"ShardIterator": iterator(name, shard, 0), "Limit": limit}
        connection.request("POST", "/", json.dumps(request), headers)
        connection.getresponse().read()
    return (time.process_time() - began) * int(each) / limit


def decoding(stream: str) -> float:
    """CPU seconds to decode the stream's pages by a bare loop in one process, without a pace or rows."""
    _, shards, each = stream.split("-")
    client: Any = boto3.client("kinesis")
    body: list[bytes] = []
    client.meta.events.register(
        "before-parse.kinesis.GetRecords", lambda response_dict, **_: body.append(response_dict["body"])
    )
    name = f"{BACKLOG}-1-{each}"  # the same records, in a shard of its own that is read once
    client.get_records(ShardIterator=iterator(name, 0, 0), Limit=10_000)
    page, pages = body[0], int(shards) * int(each) / len(decode_records_reply(body[0]).records)
    began = time.process_time()
    for _ in range(round(pages)):
        decode_records_reply(page)
    return time.process_time() - began


class Prebuilt(DataSource):
    """As many rows as the stream, of one Arrow batch that is made once: only Spark's transport into the JVM."""

    @classmethod
    def name(cls) -> str:
        return "prebuilt"

    def schema(self) -> str:
        return SCHEMA_DDL

    def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002 -- Spark's interface
        return PrebuiltReader(self.options["stream"], int(self.options["partitions"]))


class PrebuiltReader(DataSourceReader):
    def __init__(self, stream: str, partitions: int) -> None:
        self._rows = records_of(stream) // partitions
        self._partitions = partitions

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[Any]:  # noqa: ARG002
        data = [StreamRecord(str(at), bytes(RECORD_BYTES), "k" * 16, SystemClock().now()) for at in range(ROWS)]
        [batch] = Rows("orders", "shardId-000000000000", StrayFilter(None, NOT_DESCRIBED)).batches(data)
        for _ in range(self._rows // ROWS):
            yield batch


def carry(spark: SparkSession, stream: str, slots: int) -> None:
    rows = spark.read.format("prebuilt").options(stream=stream, partitions=str(slots)).load()
    rows.write.mode("overwrite").format("noop").save()


class Planned(NamedTuple):
    """One micro-batch's plan, in this process: seconds by the clock and CPU seconds, and the bytes of its tasks."""

    seconds: float
    cpu_seconds: float
    task_bytes: int


def plans(stream: str, partitions: int, count: int = 4) -> list[Planned]:
    """Plans micro-batches as Spark does. The first one is the first of a new query."""
    options = parse_options(
        {"stream": stream, "maxPartitions": str(partitions), "startPosition": "LATEST"}, UseOfLeases.STREAM
    )
    reader = StreamReader(options, connect_driver, lambda _: None, lambda _: None, connect_task)
    offset, found = reader.initialOffset(), []
    for _ in range(count):
        time.sleep(2)
        wall, cpu = time.monotonic(), time.process_time()
        after = json.loads(json.dumps(reader.latestOffset(offset, reader.getDefaultReadLimit())))
        tasks = pickle.dumps(reader.partitions(offset, after)) if after != offset else b""
        found.append(Planned(time.monotonic() - wall, time.process_time() - cpu, len(tasks)))
        offset = after
    return found


class Empty(DataSource):
    """A source of `partitions` partitions that has nothing to read, but a batch for each trigger."""

    @classmethod
    def name(cls) -> str:
        return "empty"

    def schema(self) -> str:
        return SCHEMA_DDL

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002, N802 -- Spark's interface
        return EmptyReader(int(self.options["partitions"]))


class EmptyReader(DataSourceStreamReader):
    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._at = 0

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"at": 0}

    def latestOffset(self, *_: Any) -> dict[str, int]:  # noqa: N802
        self._at += 1
        return {"at": self._at}

    def partitions(self, start: Any, end: Any) -> Sequence[InputPartition]:  # noqa: ARG002
        return [InputPartition(number) for number in range(self._partitions)]

    def read(self, partition: Any) -> Any:  # noqa: ARG002
        return iter(())


def batches(spark: SparkSession, source: str, options: dict[str, str], count: int) -> float:
    """CPU seconds for a micro-batch, without those of the start."""
    rows = spark.readStream.format(source).options(**options).load()
    ended: list[tuple[int, float]] = []
    enough = Event()

    def done(batch: DataFrame, number: int) -> None:
        batch.write.mode("append").format("noop").save()
        ended.append((number, cpu_seconds()))
        if len(ended) > count:
            enough.set()

    folder = mkdtemp()
    query = (
        rows.writeStream.foreachBatch(done)
        .trigger(processingTime="2 seconds")
        .option("checkpointLocation", folder)
        .start()
    )
    enough.wait(300)
    query.stop()
    rmtree(folder)
    (first, before), (last, after) = ended[1], ended[-1]
    return (after - before) / (last - first)


def main(stream: str, slots: int) -> None:
    spark = session(slots, "3g")
    spark.dataSource.register(Empty)
    spark.dataSource.register(Prebuilt)
    read(spark, ALONE, slots, slots)  # a warm-up
    carry(spark, ALONE, slots)
    from_parquet = parquet(spark, stream)
    found: dict[str, list[Any]] = {"read": [], "parquet": [], "carried": [], "receiving": [], "decoding": []}
    for _ in range(ROUNDS):
        found["read"].append(read(spark, stream, slots, slots))
        found["parquet"].append(measured(from_parquet))
        found["carried"].append(measured(partial(carry, spark, stream, slots)))
        found["receiving"].append(receiving(stream))
        found["decoding"].append(decoding(stream))
    told: dict[str, Any] = {name: _median(values) for name, values in found.items()}
    told["alone"] = read(spark, ALONE, slots, None)
    told["plans"] = {name: plans(name, slots) for name in (f"{BUSY}-1000-0", f"{IDLE}-1000-0", f"{IDLE}-64-0")}
    told["batches"] = {
        **{f"empty {n}": batches(spark, "empty", {"partitions": str(n)}, 8) for n in (1, 64)},
        **{
            f"busy {n}/{most}": batches(
                spark, "sublet", {"stream": f"{BUSY}-{n}-0", "startPosition": "LATEST", "maxPartitions": str(most)}, 8
            )
            for n, most in ((1, 1), (64, slots), (64, 64))
        },
    }
    print(json.dumps(told))
    spark.stop()


def _median(values: list[Any]) -> Any:
    """Of reads, the one in the middle by its CPU time."""
    if not isinstance(values[0], Read):
        return median(values)
    return sorted(values, key=lambda each: each.cpu_seconds)[len(values) // 2]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
