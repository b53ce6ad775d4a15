"""Keeps the table `merged`: one row per key, which is the latest of the key's records.

A record changes its row only if it is later by the columns of `--order-by`, or as late and further in the stream. So it
does not matter how often records come, in which order, or from which shard, and a batch may be repeated. A record that
deletes leaves its row there as a tombstone, with the time of its arrival in `deletedAt`.
"""

from __future__ import annotations

from dataclasses import replace

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
from sublet.spark.pipeline.reparse_command import ReparseSettings
from sublet.spark.pipeline.settings import PipelineSettings, Sink


class MergedTable:
    """The table `merged` of a lake."""

    def __init__(self, lake: Lake, rule: MergeRule) -> None:
        self._lake, self._rule = lake, rule
        self._merge = Merge(on=rule.key, update_if=rule.update_if, clear_if=rule.update_if)

    def write(self, parsed: DataFrame, *, again: bool = False) -> int:
        """Merges rows of the table `parsed`, and returns how many keys they have. `again`: a row of the same record is
        written again, with what today's schema makes of it."""
        rows = latest(parsed, self._rule).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            keys = int(rows.count())
            if keys:
                merge = replace(self._merge, update_if=self._rule.rewrite_if) if again else self._merge
                self._lake.merge(MERGED, rows, merge)
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


def merged_table(
    spark: SparkSession, settings: PipelineSettings | ReparseSettings, schema: StructType | None
) -> MergedTable | None:
    """None without a rule. Raises SettingsError if there is a table that a rule made, which would lack records from now
    on."""
    output, checkpoint, sink = settings.output, settings.checkpoint, settings.sink
    if settings.merge is not None and schema is not None:
        return open_merged(spark, output=output, checkpoint=checkpoint, sink=sink, rule=settings.merge, schema=schema)
    if SparkFiles(spark).exists(rule_file(output, checkpoint, sink)) and _is_there(spark, output, sink):
        wanted = (
            f"as it was so far, since the output has a table {MERGED}: to stop merging, remove or rename that table"
        )
        raise SettingsError("merge-key", None, wanted)
    return None


def _is_there(spark: SparkSession, output: str, sink: Sink) -> bool:
    if sink is Sink.ICEBERG:
        return bool(spark.catalog.tableExists(f"{output}.{MERGED}"))
    return SparkFiles(spark).exists(f"{output}/{MERGED}/_delta_log")


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
