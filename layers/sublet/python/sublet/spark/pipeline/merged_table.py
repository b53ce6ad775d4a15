"""Keeps the table `merged`: one row per key, which is the latest of the key's records.

A record changes its row only if it is later by the columns of `--order-by`, or as late and further in the stream. So it
does not matter how often records come, in which order, or from which shard, and a batch may be repeated. A record that
deletes leaves its row there as a tombstone, with the time of its arrival in `deletedAt`.
"""

from __future__ import annotations

from pyspark import StorageLevel
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import StructType

from sublet.errors import SettingsError
from sublet.spark.pipeline.file_system import SparkFiles
from sublet.spark.pipeline.lake import Lake, open_lake
from sublet.spark.pipeline.merge import Merge, quoted
from sublet.spark.pipeline.merge_rule import DELETED_AT, MERGED, RULE, MergeRule, fitting, settled
from sublet.spark.pipeline.settings import Sink


class MergedTable:
    """The table `merged` of a lake."""

    def __init__(self, lake: Lake, rule: MergeRule) -> None:
        self._lake, self._rule = lake, rule
        self._merge = Merge(on=rule.key, update_if=rule.update_if, clear_if=rule.update_if)

    def write(self, parsed: DataFrame) -> int:
        """Merges rows of the table `parsed`, and returns how many keys they have."""
        rows = latest(parsed, self._rule).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            keys = int(rows.count())
            if keys:
                self._lake.merge(MERGED, rows, self._merge)
        finally:
            rows.unpersist()
        return keys


def latest(parsed: DataFrame, rule: MergeRule) -> DataFrame:
    """The latest row of each key, with `deletedAt`."""
    order = [F.col(quoted(name)) for name in rule.order_by]
    position = [F.length("sequenceNumber"), *map(F.col, ("sequenceNumber", "subSequenceNumber", "stream", "shardId"))]
    version = F.struct(*(each.alias(f"by{index}") for index, each in enumerate([*order, *position])))
    row = F.struct(*(F.col(quoted(name)) for name in parsed.columns))
    grouped = parsed.groupBy(*(F.col(quoted(name)) for name in rule.key)).agg(F.max_by(row, version).alias("latest"))
    deletes = F.expr(f"({rule.delete_when})") if rule.delete_when is not None else F.lit(False)
    deleted_at = F.when(deletes, F.col("approximateArrivalTimestamp"))
    return grouped.select("latest.*").withColumn(DELETED_AT, deleted_at.cast("timestamp"))


def open_merged(
    spark: SparkSession, *, output: str, checkpoint: str, sink: Sink, rule: MergeRule, schema: StructType
) -> MergedTable:
    """Raises SettingsError if the rule does not fit the schema, or the table that is there."""
    rule = fitting(rule, schema.jsonValue())
    check_condition(spark, rule, schema)
    lake, files = open_lake(spark, output, sink), SparkFiles(spark)
    file = rule_file(output, checkpoint, sink)
    rule, is_new = settled(rule, files.read_text(file), has_table=MERGED in lake.names())
    if is_new:
        files.write_text(file, rule.to_json())
    return MergedTable(lake, rule)


def rule_file(output: str, checkpoint: str, sink: Sink) -> str:
    """Beside the pipeline's mark: Iceberg's output is not a folder."""
    return f"{checkpoint if sink is Sink.ICEBERG else output}/{RULE}"


def check_condition(spark: SparkSession, rule: MergeRule, schema: StructType) -> None:
    if rule.delete_when is None:
        return
    try:
        spark.createDataFrame([], schema).where(f"({rule.delete_when})").schema  # noqa: B018 - Spark analyzes it
    except (AnalysisException, ParseException) as refusal:
        reason = str(refusal).strip().splitlines()[0]
        wanted = f"a condition over the schema's columns, in SQL ({reason})"
        raise SettingsError("delete-when", rule.delete_when, wanted) from None
