"""What `daily.sql` reads: `raw` reads the stream, and `parsed` reads `raw`."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
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
def parsed() -> DataFrame:
    """The flights, whose days `daily.sql` counts."""
    return judging.parsed(judging.judge(spark().readStream.table("raw"), SCHEMA))
