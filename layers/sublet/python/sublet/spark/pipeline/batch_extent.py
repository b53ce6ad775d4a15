"""Finds out what a batch covers: by its rows, and by the query's offset log."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sublet.protocol.checkpoint import Checkpoint
from sublet.spark.plan.offset_log import offset_of
from sublet.spark.plan.offsets import Offset
from sublet.spark.plan.table_positions import BatchExtent, ShardExtent, bounded, shard_name
from sublet.spark.positions import position_key

ReadText = Callable[[str], str | None]
"""Returns a file's text, or None if there is no such file."""


def extent_of(rows: DataFrame) -> BatchExtent:
    """What the rows cover, by one pass over them."""
    key = position_key()
    shards = rows.groupBy("stream", "shardId").agg(
        F.min(key).alias("first"),
        F.max(key).alias("last"),
        F.max(F.unix_millis("approximateArrivalTimestamp")).alias("arrived"),
        F.count(F.lit(1)).alias("rows"),
        F.sum(F.length("data")).alias("size"),
    )
    found = shards.collect()
    return BatchExtent(
        {
            shard_name(row["stream"], row["shardId"]): ShardExtent(
                Checkpoint(row["first"]["number"], row["first"]["sub"]),
                Checkpoint(row["last"]["number"], row["last"]["sub"]),
                row["arrived"] or 0,
            )
            for row in found
        },
        sum(row["rows"] for row in found),
        sum(row["size"] or 0 for row in found),
    )


class OffsetLog:
    """The offsets in a query's checkpoint, one file a batch. `read_text` reads where Spark writes."""

    def __init__(self, read_text: ReadText, checkpoint: str) -> None:
        self._read_text, self.checkpoint = read_text, checkpoint

    def bounded(self, extent: BatchExtent, batch: int) -> BatchExtent:
        """The extent with the batch's ends and beginnings. Without them if the log's format is not known."""
        before = None if batch == 0 else self.offset(batch - 1)
        if batch > 0 and before is None:
            return extent
        return bounded(extent, before, self.offset(batch))

    def offset(self, batch: int) -> Offset | None:
        """Where the batch ends; None if there is no such entry, or its format is not known."""
        return offset_of(self._read_text(f"{self.checkpoint}/offsets/{batch}") or "")
