"""Counts every record of a stream's last minutes with Spark's batch source, for `sublet hot --exact`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own way to import it

from sublet.decisions.load.sketch import PeakSecond, ShardSketch
from sublet.protocol.shard import Shard
from sublet.spark.plan.exact_sketch import ExactSketching, KeyTotal
from sublet.spark.source.data_source import SubletDataSource


def local_spark() -> SparkSession:
    """The session of this process, or a new one on this machine. Python's tasks run this interpreter."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = SparkSession.builder.appName("sublet hot").config("spark.ui.showConsoleProgress", "false").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def exact_sketches(
    spark: SparkSession, stream: str, shards: Iterable[Shard], since: datetime, until: datetime
) -> Mapping[str, ShardSketch]:
    """Returns sketches by shard id, of the open shards that have records. The driver holds one key's total at a time,
    and the heaviest keys of each shard.
    """
    spark.dataSource.register(SubletDataSource)
    options = {"stream": stream, "startPosition": f"AT_TIMESTAMP:{since.isoformat()}"}
    rows = _measured(spark.read.format("sublet").options(**options).load())
    made = {shard.shard_id: ExactSketching(shard.shard_id, shard.hash_key_range) for shard in shards if shard.is_open}
    seen = set()
    for row in _by_key(rows).toLocalIterator():
        if row["shardId"] in made:
            seen.add(row["shardId"])
            made[row["shardId"]].add(KeyTotal(*row[1:]))
    for row in _by_second(rows).toLocalIterator():
        if row["shardId"] in made:
            at = datetime.fromtimestamp(row["second"], UTC)
            made[row["shardId"]].add_second(PeakSecond(at, row["stream_records"], row["bytes"]))
    return {shard_id: made[shard_id].sketch(since, until) for shard_id in seen}


def _measured(rows: DataFrame) -> DataFrame:
    key = F.coalesce(F.octet_length("partitionKey"), F.lit(0))
    is_first = F.when(F.col("subSequenceNumber") == 0, 1).otherwise(0)
    size = F.octet_length("data") + key
    is_aggregated = (F.col("subSequenceNumber") > 0) | F.col("explicitHashKey").isNotNull()
    return rows.select(
        "shardId",
        "partitionKey",
        "explicitHashKey",
        size.alias("bytes"),
        is_first.alias("stream_records"),
        F.when(is_aggregated, size).otherwise(0).alias("aggregated"),
        F.col("approximateArrivalTimestamp").cast("long").alias("second"),
    )


def _by_key(rows: DataFrame) -> DataFrame:
    """Sums by key. The columns are the shard, then KeyTotal's fields in their order."""
    return rows.groupBy("shardId", "partitionKey", "explicitHashKey").agg(
        F.sum("bytes").alias("bytes"),
        F.count("*").alias("records"),
        F.sum("stream_records").alias("stream_records"),
        F.sum("aggregated").alias("aggregated"),
    )


def _by_second(rows: DataFrame) -> DataFrame:
    return rows.groupBy("shardId", "second").agg(
        F.sum("stream_records").alias("stream_records"), F.sum("bytes").alias("bytes")
    )
