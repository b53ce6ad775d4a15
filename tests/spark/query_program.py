"""A streaming query in a process of its own, to be killed: `python query_program.py FOLDER STREAM [--drain]`

Each batch becomes one file, FOLDER/batches/<id>.parquet. A repeated batch must have the same rows: it is compared
with its file before anything is reported. Dies by SIGKILL, with everything that it started, in the first batch that
ends a shard and in the first one that begins a child, before their files are written.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from sublet.spark import drain

from tests.spark.processes import kill_session


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("stream")
    parser.add_argument("--drain", action="store_true", help="read what is there, and end")
    arguments = parser.parse_args()
    spark = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    while True:
        writer = (
            spark.readStream.format("sublet")
            .options(stream=arguments.stream, maxRecordsPerTrigger="1500", listInterval="1s", patience="20s")
            .option("availableNow", arguments.drain)
            .load()
            .writeStream.foreachBatch(lambda rows, batch: _write(arguments.folder, rows, batch))
            .option("checkpointLocation", str(arguments.folder / "checkpoint"))
        )
        query = writer.start()
        try:
            drain(query) if arguments.drain else query.awaitTermination()
            break
        except Exception as failure:  # noqa: BLE001 - one of its processes was killed: from the checkpoint again
            _say("failed", str(failure)[:2000])
    spark.stop()


def _write(folder: Path, rows: DataFrame, batch: int) -> None:
    table: pa.Table = rows.toArrow()
    table = table.sort_by(
        [("shardId", "ascending"), ("sequenceNumber", "ascending"), ("subSequenceNumber", "ascending")]
    )
    file = folder / "batches" / f"{batch}.parquet"
    if file.exists():
        if not pq.read_table(file).equals(table):
            _say("different", f"batch {batch}")
            return
        _say("same", str(batch))
    _die_once(folder, batch)
    fresh = file.with_suffix(".new")
    pq.write_table(table, fresh)
    fresh.rename(file)
    _say("batch", str(batch))


def _die_once(folder: Path, batch: int) -> None:
    offset = json.loads((folder / "checkpoint" / "offsets" / str(batch)).read_text().splitlines()[-1])
    events: dict[str, Any] = {
        "parent_end": any("e" in shard for shard in offset["shards"].values()),
        "first_child": batch > 0 and any("f" in shard for shard in offset["shards"].values()),
    }
    for name, happens in events.items():
        mark = folder / f"died_at_{name}"
        if happens and not mark.exists():
            mark.touch()
            _say("dying", name)
            kill_session(os.getsid(0), signal.SIGKILL)


def _say(what: str, detail: str) -> None:
    print(json.dumps([what, detail]), flush=True)


if __name__ == "__main__":
    main()
