"""Rows as the source has them, made without a stream."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from random import Random
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from sublet.spark.read.rows import SCHEMA_DDL

from tests.spark.order_changes import BEGAN


class Records:
    """Rows as the source has them, in two shards that become one. The first sequence numbers have fewer digits."""

    def __init__(self, spark: SparkSession, chance: Random) -> None:
        self._spark, self._chance, self.rows = spark, chance, list[dict[str, Any]]()

    def add(self, data: Sequence[str | bytes]) -> None:
        for each in data:
            number = 95 + len(self.rows)
            shard = self._chance.randrange(2) if number < 300 else 2
            arrived = BEGAN + timedelta(hours=len(self.rows))
            self.rows.append(
                {
                    "data": each if isinstance(each, bytes) else each.encode(),
                    "partitionKey": "key",
                    "explicitHashKey": None,
                    "sequenceNumber": str(number),
                    "subSequenceNumber": 0,
                    "approximateArrivalTimestamp": arrived,
                    "shardId": f"shardId-{shard}",
                    "stream": "orders",
                }
            )

    def frame(self, rows: list[dict[str, Any]]) -> DataFrame:
        return self._spark.createDataFrame([tuple(row.values()) for row in rows], SCHEMA_DDL)
