"""The source over Spark Connect: a client that has only a socket, and a server that has the package. `sublet pipeline`
is refused there."""

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
from sublet.errors import SettingsError
from sublet.spark import LagListener, drain, lag
from sublet.spark.pipeline.spark_connect import classic

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
try:
    classic(spark)
except SettingsError as refused:
    assert refused.name == "SparkSession" and "toTable()" in str(refused), refused
else:
    raise AssertionError("sublet pipeline takes a session over Connect")
print("counted", int(sum(metrics.values(Metric.RECORDS))))
print("stream", spark.read.parquet(folder + "/rows").select("data").distinct().count())
spark.stop()
"""


OWN_SINK = """
import sys
from pyspark.sql import SparkSession
from sublet.spark import drain, positions_of, unwritten

stream, folder = sys.argv[1:]
spark = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
table = folder + "/table"


def write(rows, batch):
    found = rows.sparkSession.read.schema(rows.schema).parquet(table)
    unwritten(rows, positions_of(found)).write.mode("append").parquet(table)


rows = spark.readStream.format("sublet").options(stream=stream, availableNow="true").load()
spark.createDataFrame([], rows.schema).write.parquet(table)
for checkpoint in ("one", "another"):
    drain(rows.writeStream.foreachBatch(write).option("checkpointLocation", folder + "/" + checkpoint).start())
print("rows", spark.read.parquet(table).count())
spark.stop()
"""


@pytest.mark.parametrize(
    ("arguments", "environment", "named"),
    [
        (("--conf", "spark.remote=sc://nowhere:15002/;token=s3cr3t"), {}, "spark.remote = 'sc://nowhere:15002/'"),
        ((), {"SPARK_REMOTE": "sc://nowhere:15002/;token=s3cr3t"}, "spark.remote = 'sc://nowhere:15002/'"),
        (("--conf", "spark.api.mode=Connect"), {}, "spark.api.mode = 'connect'"),
        ((), {"SPARK_API_MODE": "connect"}, "spark.api.mode = 'connect'"),
    ],
)
def test_pipeline_over_connect_is_refused_by_name_before_spark_starts(
    tmp_path: Path, arguments: tuple[str, ...], environment: dict[str, str], named: str
) -> None:
    command = [sys.executable, "-m", "sublet.spark.pipeline", "--stream", "orders", "--output", str(tmp_path / "lake")]
    ran = subprocess.run(
        [*command, *arguments],
        env={**os.environ, **environment, "JAVA_HOME": "/nowhere"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 2
    assert ran.stderr.startswith(f"sublet: setting {named}: sublet pipeline runs beside Spark's driver")
    assert "s3cr3t" not in ran.stderr
    assert not (tmp_path / "lake").exists()


@explores
@pytest.mark.timeout(400)
def test_batch_and_stream_and_lag_over_connect(embedded_aws: EmbeddedAws, tmp_path: Path) -> None:
    stream = BusyStream(embedded_aws.client("kinesis"), f"connect-{os.getpid()}", 3)
    for _ in range(2):
        stream.produce()
        stream.reshard()
    said = run_client(CLIENT, embedded_aws, stream.name, tmp_path)
    produced = str(len(stream.produced))
    assert said.split() == ["batch", produced, "counted", produced, "stream", produced]


@explores
@pytest.mark.timeout(400)
def test_sink_of_your_own_writes_each_row_once_over_connect(embedded_aws: EmbeddedAws, tmp_path: Path) -> None:
    """The second query has a new checkpoint, and reads everything again."""
    stream = BusyStream(embedded_aws.client("kinesis"), f"connect-own-{os.getpid()}", 3)
    stream.produce()
    said = run_client(OWN_SINK, embedded_aws, stream.name, tmp_path)
    assert said.split() == ["rows", str(len(stream.produced))]


def run_client(program: str, embedded_aws: EmbeddedAws, stream: str, folder: Path) -> str:
    environment = {**os.environ, **embedded_aws.environment, "PYSPARK_PYTHON": sys.executable}
    with subprocess.Popen(
        [sys.executable, "-c", program, stream, str(folder)],
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
    return said
