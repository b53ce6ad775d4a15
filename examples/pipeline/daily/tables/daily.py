"""Flights by carrier and day, declared: `raw` reads the stream, and `daily` reads `raw`.

A day is written once, when the watermark has passed its end. The watermark is six hours before the latest flight that
was read, in whichever shard. So a shard without records does not hold it up. A flight that comes more than six hours
after a later one of another shard may be too late: it is in `raw` and not in `daily`. So the delay has to cover how far
one shard may be behind another.
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


def spark() -> SparkSession:
    return SparkSession.active()


@dp.table(format="parquet")
def raw() -> DataFrame:
    """Every user record. Several streams are one source (`stream` has their names): of a union of sources, Spark takes
    the watermark that is furthest behind, and one without records would hold it up."""
    return spark().readStream.format("sublet").option("stream", spark().conf.get("sublet.stream")).load()


@dp.table(format="parquet")
def daily() -> DataFrame:
    """The flights of each carrier and day."""
    flights = judging.parsed(judging.judge(spark().readStream.table("raw"), SCHEMA))
    timed = flights.withColumn("at", F.col("scheduled").cast("timestamp")).withWatermark("at", "6 hours")
    by_day = timed.groupBy(F.window("at", "1 day").alias("within"), "carrier").agg(
        F.count(F.lit(1)).alias("flights"), F.sum("departure_delay").alias("departure_delay")
    )
    return by_day.select(F.to_date("within.start").alias("day"), "carrier", "flights", "departure_delay")
