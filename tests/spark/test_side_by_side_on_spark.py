"""Several shards a task, in Spark's own Python workers: a LIMIT, a cancelled query, a worker that is used again."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from infra.local import EmbeddedAws
from tests.spark.local_session import local_session
from tests.spark.processes import python_workers

pytestmark = pytest.mark.timeout(300)

SHARDS = 6
RECORDS = 900


@pytest.fixture(scope="module")
def spark(embedded_aws: EmbeddedAws) -> Iterator[SparkSession]:
    with local_session(embedded_aws) as session:
        yield session


@pytest.fixture(scope="module")
def stream(embedded_aws: EmbeddedAws) -> str:
    """Records of 5 KB: each shard needs more than one page."""
    client, name = embedded_aws.client("kinesis"), f"side-by-side-{os.getpid()}"
    client.create_stream(StreamName=name, ShardCount=SHARDS)
    client.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})
    numbers = [b"%d" % number for number in range(RECORDS)]
    for first in range(0, RECORDS, 100):
        records = [{"PartitionKey": each.decode(), "Data": each.ljust(5000)} for each in numbers[first : first + 100]]
        reply = client.put_records(StreamName=name, Records=records)
        assert reply["FailedRecordCount"] == 0, reply
    return name


def read(spark: SparkSession, stream: str, **options: str) -> DataFrame:
    return spark.read.format("sublet").options(stream=stream, maxPartitions="1", **options).load()


def soon(happens: Callable[[], bool], within: float = 120) -> bool:
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        if happens():
            return True
        time.sleep(0.05)
    return False


def names_in_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The names of the threads in the worker of this task."""
    for _ in batches:
        pass
    names = [thread.name for thread in threading.enumerate()]
    yield pa.RecordBatch.from_pydict({"names": [",".join(names)]})


def is_left(spark: SparkSession) -> bool:
    """True if a worker that Spark uses again still has a thread that reads a shard."""
    found = spark.range(4, numPartitions=2).mapInArrow(names_in_worker, "names string").collect()
    assert found
    return any("sublet-shard" in row["names"] for row in found)


def busiest_worker(spark: SparkSession) -> int:
    """The most threads of one of this JVM's Python workers."""
    jvm = spark.sparkContext._gateway.proc.pid
    return max((_threads(pid) for pid in python_workers(os.getsid(jvm)) if jvm in _ancestors(pid)), default=0)


def _threads(pid: int) -> int:
    with suppress(FileNotFoundError):
        return len(list(Path(f"/proc/{pid}/task").iterdir()))
    return 0


def _ancestors(pid: int) -> Iterator[int]:
    with suppress(FileNotFoundError):
        while pid > 1:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            yield pid


def test_a_task_reads_several_shards_and_leaves_no_thread(spark: SparkSession, stream: str) -> None:
    """Spark uses the worker again."""
    rows = read(spark, stream)
    assert rows.rdd.getNumPartitions() == 1
    assert sorted(int(row["data"]) for row in rows.select("data").collect()) == list(range(RECORDS))
    assert not is_left(spark)


def test_a_limit_leaves_no_thread(spark: SparkSession, stream: str) -> None:
    """Spark gives up the task's worker, which ends once it finds that nobody reads."""
    assert len(read(spark, stream).limit(3).collect()) == 3
    assert soon(lambda: busiest_worker(spark) < SHARDS)
    assert not is_left(spark)


def test_a_cancelled_query_leaves_no_thread(spark: SparkSession, stream: str) -> None:
    """Its task waits for records that never come."""
    ends = json.dumps({f"shardId-{shard:012}": "9" * 56 for shard in range(SHARDS)})
    assert soon(lambda: busiest_worker(spark) < SHARDS)
    rows = read(spark, stream, endCheckpoints=ends, patience="1h")
    failures: list[Exception] = []

    def count() -> None:
        try:
            rows.count()
        except Exception as failure:  # noqa: BLE001 -- Spark's or Py4J's
            failures.append(failure)

    query = threading.Thread(target=count)
    query.start()
    assert soon(lambda: busiest_worker(spark) > SHARDS)
    spark.sparkContext.cancelAllJobs()
    query.join()
    assert failures
    assert soon(lambda: busiest_worker(spark) < SHARDS)
    assert not is_left(spark)
