"""The source over Spark Connect: a client that has only a socket, and a server that has the package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.local import EmbeddedAws
from tests.exploring import explores
from tests.spark.kinesis_stream import BusyStream
from tests.spark.processes import kill_session

ROOT = Path(__file__).resolve().parents[2]

CLIENT = """
import sys
import time
from pyspark.sql import SparkSession
from sublet.metric_names import Metric
from sublet.system.clock import SystemClock
from sublet.testing.memory import MemoryMetrics
from sublet.spark import LagListener, drain, lag

stream, folder = sys.argv[1:]
spark = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
assert type(spark).__module__.startswith("pyspark.sql.connect"), type(spark)
rows = spark.read.format("sublet").option("stream", stream).load()
print("batch", rows.count())
metrics = MemoryMetrics()
spark.streams.addListener(LagListener(spark.streams, stream, metrics, SystemClock()))
query = (
    spark.readStream.format("sublet").options(stream=stream, availableNow="true").load()
    .writeStream.format("parquet").option("path", folder + "/rows").option("checkpointLocation", folder + "/checkpoint")
    .start()
)
drain(query)
while not metrics.flushes:
    time.sleep(0.1)
assert {each.stream for each in lag(query)} == {stream}
print("counted", int(sum(metrics.values(Metric.RECORDS))))
print("stream", spark.read.parquet(folder + "/rows").select("data").distinct().count())
spark.stop()
"""


@explores
@pytest.mark.timeout(400)
def test_batch_and_stream_and_lag_over_connect(embedded_aws: EmbeddedAws, tmp_path: Path) -> None:
    stream = BusyStream(embedded_aws.client("kinesis"), f"connect-{os.getpid()}", 3)
    for _ in range(2):
        stream.produce()
        stream.reshard()
    environment = {**os.environ, **embedded_aws.environment, "PYSPARK_PYTHON": sys.executable}
    with subprocess.Popen(
        [sys.executable, "-c", CLIENT, stream.name, str(tmp_path)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as client:
        try:
            said, errors = client.communicate(timeout=350)
        finally:
            kill_session(client.pid)  # the server is the client's own, and outlives a client that fails
    assert client.returncode == 0, errors[-3000:]
    produced = str(len(stream.produced))
    assert said.split() == ["batch", produced, "counted", produced, "stream", produced]
