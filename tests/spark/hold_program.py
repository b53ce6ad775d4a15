"""A streaming query that holds leases, in a process of its own: `hold_program.py FOLDER STREAM APPLICATION ENDING
[TRIGGER]`

Each batch becomes one file, FOLDER/batches/<id>.parquet. In the batch after the file FOLDER/end appears, before its
own file is written, it ends as ENDING says; with a TRIGGER, which waits long, after the first batch instead.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from sublet.spark import drain

from tests.spark.processes import kill_session, session_members

FAILOVER = "6s"

READER = "python_streaming_source_runner"
"""The source's process on the driver."""

JVM = "org.apache.spark.deploy.SparkSubmit"

SIGNALS = {
    "kill_jvm": (JVM, signal.SIGKILL),
    "kill_reader": (READER, signal.SIGKILL),
    "terminate_reader": (READER, signal.SIGTERM),
}


def main() -> None:
    folder, stream, application, ending, *trigger = sys.argv[1:]
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    program = Program(Path(folder), ending, bool(trigger))
    options = {"leases": "hold", "failoverTime": FAILOVER, "listInterval": "1s", "patience": "20s"}
    if ending == "available_now":
        options["availableNow"] = "true"
    if ending != "stop_blind":
        options["checkpointLocation"] = f"{folder}/checkpoint"
    writer = (
        spark.readStream.format("sublet")
        .options(stream=stream, application=application, **options)
        .load()
        .writeStream.foreachBatch(program.write)
        .option("checkpointLocation", f"{folder}/checkpoint")
    )
    query = (writer.trigger(processingTime=trigger[0]) if trigger else writer).start()
    try:
        program.wait_and_end(query, spark)
    except Exception as failure:  # noqa: BLE001 - that is how some end
        say("failed", str(failure)[:3000])


class Program:
    def __init__(self, folder: Path, ending: str, is_idle: bool) -> None:
        self.folder, self.ending, self.is_idle = folder, ending, is_idle
        self.in_last_batch = threading.Event()

    def write(self, rows: DataFrame, batch: int) -> None:
        if (self.folder / "end").exists() and not self.is_idle:
            self._last_batch(rows)
        table = rows.toArrow()
        file = self.folder / "batches" / f"{batch}.parquet"
        fresh = file.with_suffix(".new")
        pq.write_table(table, fresh)
        fresh.rename(file)
        say("batch", str(batch))
        if self.is_idle:
            self.in_last_batch.set()

    def _last_batch(self, rows: DataFrame) -> None:
        match self.ending:
            case "handler":
                raise ValueError("the user's code has failed")
            case "task":
                rows.foreach(fail)
            case _:
                self.in_last_batch.set()
                time.sleep(3)

    def wait_and_end(self, query: StreamingQuery, spark: SparkSession) -> None:
        if self.ending == "available_now":
            drain(query)
        while not self.in_last_batch.wait(0.2):
            if not query.isActive:
                break
        if self.is_idle:
            time.sleep(2)  # until Spark has written its commit
        say("ending", self.ending)
        match self.ending:
            case "stop" | "stop_blind":
                query.stop()
            case "spark_stop":
                spark.stop()
            case "interrupt":
                os.kill(os.getpid(), signal.SIGINT)
            case "kill_everything":
                kill_session(os.getsid(0))
            case ending if ending in SIGNALS:
                what, number = SIGNALS[ending]
                os.kill(member(what), number)
        query.awaitTermination()


def fail(_: object) -> NoReturn:
    raise ValueError("a task has failed")


def member(what: str) -> int:
    """This session's process with that in its command line."""
    for pid in session_members(os.getsid(0)):
        with suppress(OSError):
            if what.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
    raise LookupError(f"no {what} in this session")


def say(what: str, detail: str) -> None:
    print(json.dumps([what, detail]), flush=True)


if __name__ == "__main__":
    main()
