"""The tables of `sublet pipeline`, declared: Spark works out their order, and keeps each one's position.

`raw` reads the stream; the others read `raw`, so the stream is read once. `carriers` is recomputed from all of
`parsed`.
"""

from __future__ import annotations

import json
from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType
from sublet.spark.pipeline import judging

SCHEMA = StructType.fromJson(json.loads(Path(__file__).parents[2].joinpath("flights.json").read_text()))
PARTITIONS = ["arrivalDate", "shardId"]


def spark() -> SparkSession:
    return SparkSession.active()


@dp.table(format="parquet", partition_cols=PARTITIONS)
def raw() -> DataFrame:
    """Every user record."""
    stream = spark().conf.get("sublet.stream")
    rows = spark().readStream.format("sublet").option("stream", stream).load()
    return judging.with_arrival_date(rows)


@dp.table(format="parquet", partition_cols=PARTITIONS)
def parsed() -> DataFrame:
    """The rows that fit the schema, with its columns."""
    return judging.parsed(judging.judge(spark().readStream.table("raw"), SCHEMA))


@dp.table(format="parquet", partition_cols=PARTITIONS)
def rejected() -> DataFrame:
    """The rows that do not fit: the reason, and the original bytes."""
    return judging.rejected(judging.judge(spark().readStream.table("raw"), SCHEMA))


@dp.materialized_view(format="parquet")
def carriers() -> DataFrame:
    """Figures per carrier."""
    flights = spark().read.table("parsed")
    return flights.groupBy("carrier").agg(
        F.count(F.lit(1)).alias("flights"),
        F.sum("departure_delay").alias("departure_delay"),
        F.sum("arrival_delay").alias("arrival_delay"),
    )
