"""A Spark query that shares an application's leases (`leases=hold`), in Spark's own environment; records what it
gets.

`python spark_worker.py APPLICATION STREAM FAILOVER_SECONDS FOLDER`, with the recorder's RECORDER_DIRECTORY and
format. On SIGTERM it finishes its current batch and ends.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

DIRECTORY = Path(os.environ["RECORDER_DIRECTORY"])


def main(application: str, stream: str, failover_seconds: str, folder: str) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "512m")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("WARN")
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    checkpoint = f"{folder}/spark-checkpoint"
    query = (
        spark.readStream.format("sublet")
        .options(stream=stream, application=application, leases="hold", checkpointLocation=checkpoint)
        .options(failoverTime=f"{failover_seconds}s", listInterval="1s", patience="60s")
        .load()
        .writeStream.foreachBatch(record)
        .option("checkpointLocation", checkpoint)
        .start()
    )
    while query.isActive and not stopping.wait(0.2):
        pass
    query.stop()
    query.awaitTermination()
    spark.stop()


def record(rows: DataFrame, _: int) -> None:
    """In the order of each shard's records, which is the order of the rows."""
    found = rows.toArrow().to_pylist()
    lines = [
        [
            time.time_ns(),
            row["shardId"],
            row["sequenceNumber"],
            row["subSequenceNumber"],
            row["partitionKey"],
            row["data"].decode(),
        ]
        for row in found
    ]
    with (DIRECTORY / f"{os.getpid()}.jsonl").open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


if __name__ == "__main__":
    main(*sys.argv[1:])
