"""For a sink of your own: which rows of a batch it already holds, by the rows' own positions.

A micro-batch's number is not its identity: after a checkpoint was set back, the same number names other records. A sink
that keeps, in the transaction that writes the rows, how far it holds each shard can tell at any time what is new:

    def write(rows, batch):
        held = positions_of(rows.sparkSession.read.table("lake.orders"))
        unwritten(rows, held).write.mode("append").saveAsTable("lake.orders")

Positions are a dict that JSON can hold: `{"orders/shardId-000000000000": "4968...:3"}`, which says that everything of
that shard is held up to and including the user record 3 of that stream record. Works with Spark Connect too.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from sublet.protocol.checkpoint import Checkpoint
from sublet.spark.plan.table_positions import parsed, shard_name

_SHARD = ("stream", "shardId")


def positions_of(rows: DataFrame) -> dict[str, str]:
    """The last position of each shard in the rows, which have the source's columns `stream`, `shardId`,
    `sequenceNumber` and `subSequenceNumber`."""
    last = rows.where(F.col("sequenceNumber").isNotNull()).groupBy(*_SHARD).agg(F.max(position_key()).alias("last"))
    return {
        shard_name(row["stream"], row["shardId"]): str(Checkpoint(row["last"]["number"], row["last"]["sub"]))
        for row in last.collect()
    }


def unwritten(rows: DataFrame, positions: Mapping[str, str]) -> DataFrame:
    """The rows beyond the positions; all rows of a shard without one."""
    if not positions:
        return rows
    beyond = is_beyond(positions)
    return rows.where(beyond.isNull() | beyond)


def further(one: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    """The further position of each shard: what a sink holds after it has written a batch."""
    both = {**one, **other}
    return {name: max(one.get(name, text), other.get(name, text), key=parsed) for name, text in both.items()}


def is_beyond(positions: Mapping[str, str]) -> Column:
    """Whether a row is beyond its shard's position; null in a shard without one. At least one position."""
    entries = [part for name, text in sorted(positions.items()) for part in (F.lit(name), _key_of(parsed(text)))]
    return position_key() > F.create_map(*entries)[F.concat_ws("/", *_SHARD)]


def position_key() -> Column:
    """A row's position as a value that Spark orders rightly: decimals without padding go by length, then as text."""
    number, sub = F.col("sequenceNumber"), F.col("subSequenceNumber").cast("bigint")
    return F.struct(F.length(number).alias("digits"), number.alias("number"), sub.alias("sub"))


def _key_of(held: Checkpoint) -> Column:
    number, sub = held.sequence_number, held.sub_sequence_number
    return F.struct(
        F.lit(len(number)).alias("digits"), F.lit(number).alias("number"), F.lit(sub).cast("bigint").alias("sub")
    )
