"""Writes a batch into Iceberg tables of one of the session's catalogs, each in one commit with the table's positions.

The rows are staged as a snapshot that is not the table's yet (write-audit-publish). Then one transaction of Iceberg
makes it the table's, and sets the property with the positions. Compaction and the expiry of snapshots keep properties.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from sublet.errors import SettingsError
from sublet.spark.pipeline.adoption import PIPELINE
from sublet.spark.pipeline.attempts import written_by_another_run
from sublet.spark.pipeline.evolution import Column, Evolution, Type, adding, evolution, is_wider, widening
from sublet.spark.pipeline.layout import Batch, Layout, columns_of, conformed, nullable, numbered
from sublet.spark.plan.table_positions import TablePositions

WAP = "write.wap.enabled"
_WAP_ID = "spark.wap.id"
_ATTEMPT = "sublet.attempt"
_POSITIONS = "sublet.positions."
_CATALOG = "org.apache.iceberg.spark.SparkCatalog"


def check_iceberg(spark: SparkSession, namespace: str) -> None:
    """Raises SettingsError if the session lacks Iceberg's jars, or the namespace's catalog."""
    try:
        spark._jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(_CATALOG)  # noqa: SLF001
    except Py4JJavaError:
        jars = "--conf spark.jars.packages=org.apache.iceberg:iceberg-spark-runtime-<Spark>_2.13:<version>"
        raise SettingsError("sink", "iceberg", f"the session lacks Iceberg's jars: {jars}") from None
    catalog = namespace.partition(".")[0]
    if "." not in namespace or spark.conf.get(f"spark.sql.catalog.{catalog}", None) is None:
        wanted = (
            f"a catalog of the session and a namespace, such as glue.orders: --conf spark.sql.catalog.{catalog}=..."
        )
        raise SettingsError("output", namespace, wanted)


class IcebergTables:
    """The Iceberg tables of one pipeline. `namespace` includes the catalog's name; it is created if it does not
    exist.
    """

    def __init__(self, spark: SparkSession, namespace: str, pipeline_id: str, layout: Layout) -> None:
        self._spark, self._namespace, self._id, self._layout = spark, namespace, pipeline_id, layout
        self._property = _POSITIONS + pipeline_id
        self._read: dict[str, int] = {}
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")

    def is_of_another(self) -> bool:
        """Whether there is a table `raw` that is not this pipeline's."""
        if not self._exists("raw"):
            return False
        held = {name for name in self._loaded("raw").properties() if name.startswith(_POSITIONS)}
        return self._property not in held and (bool(held) or not self._spark.table(f"{self._namespace}.raw").isEmpty())

    def positions(self, table: str) -> TablePositions:
        held, self._read[table] = self._held(table)
        return held

    def write(self, tables: Mapping[str, DataFrame], batch: Batch) -> dict[str, int]:
        return {name: self._write(name, frame, batch) for name, frame in tables.items()}

    def move(self, name: str, reached: TablePositions) -> None:
        """Sets the positions of an existing table, without rows."""
        number = self._held(name)[1]
        if self._read.get(name, number) != number:
            raise written_by_another_run(name)
        self._publish(name, reached, number + 1, None)

    def _write(self, name: str, frame: DataFrame, batch: Batch) -> int:
        held, number = self._held(name)
        if self._read.get(name, number) != number:
            raise written_by_another_run(name)
        exists = self._exists(name)
        given = numbered(frame, batch.number)
        if exists and PIPELINE in self._spark.table(f"{self._namespace}.{name}").columns:
            given = given.withColumn(PIPELINE, F.lit(self._id))
        # Refused also if there is nothing to add: another table of the batch would be made by the new schema.
        change = self._change(name, columns_of(given)) if exists else None
        reached = held.advanced(batch.extent)
        if reached is held:
            return 0
        if change is None:
            self._create(name, given)
            change = self._change(name, columns_of(given))
        rows = int(frame.count())
        columns = self._evolved(name, change)
        attempt = secrets.token_hex(8)
        if rows:
            gathered = self._layout.gathered(conformed(given, columns), batch.extent)
            self._stage(name, gathered, f"{self._id}-{number + 1}", attempt)
        self._publish(name, reached, number + 1, attempt if rows else None)
        return rows

    def _exists(self, name: str) -> bool:
        return bool(self._spark.catalog.tableExists(f"{self._namespace}.{name}"))

    def _create(self, name: str, frame: DataFrame) -> None:
        empty = self._spark.createDataFrame([], nullable(frame.schema))
        writer = empty.writeTo(f"{self._namespace}.{name}").using("iceberg").tableProperty(WAP, "true")
        writer = writer.tableProperty("write.target-file-size-bytes", str(self._layout.file_size))
        columns = [F.col(column) for column in self._layout.partitions_of(frame)]
        (writer.partitionedBy(*columns) if columns else writer).create()

    def _stage(self, name: str, frame: DataFrame, wap_id: str, attempt: str) -> None:
        """Writes the rows as a snapshot that is not the table's. A micro-batch has a session of its own, and only that
        one's configuration counts; its catalog may have kept the columns that the table had before. Iceberg publishes
        one snapshot of a `wap_id`: of two drivers, one fails."""
        table = self._loaded(name)
        if table.properties().get(WAP) != "true":
            table.updateProperties().set(WAP, "true").commit()
        conf = frame.sparkSession.conf
        conf.set(_WAP_ID, wap_id)
        try:
            frame.sparkSession.catalog.refreshTable(f"{self._namespace}.{name}")
            frame.writeTo(f"{self._namespace}.{name}").option(f"snapshot-property.{_ATTEMPT}", attempt).append()
        finally:
            conf.unset(_WAP_ID)

    def _publish(self, name: str, reached: TablePositions, number: int, attempt: str | None) -> None:
        """One commit of both. Iceberg repeats it if another commit, such as compaction's, comes between."""
        if self._held(name)[1] != number - 1:
            raise written_by_another_run(name)
        transaction = self._loaded(name).newTransaction()
        value = json.dumps({"positions": reached.to_value(), "number": number})
        transaction.updateProperties().set(self._property, value).commit()
        if attempt is not None:
            transaction.manageSnapshots().cherrypick(self._staged(name, attempt)).commit()
        transaction.commitTransaction()

    def _staged(self, name: str, attempt: str) -> int:
        """The attempt's snapshot. Those of others never become the table's, and expire."""
        summary = F.col("summary")[_ATTEMPT]
        snapshots = self._spark.table(f"{self._namespace}.{name}.snapshots").where(summary == attempt)
        [found] = snapshots.select("snapshot_id").collect()
        return int(found[0])

    def _held(self, name: str) -> tuple[TablePositions, int]:
        """The table's positions, and the number of the commit that set them."""
        if not self._exists(name):
            return TablePositions(), 0
        text = self._loaded(name).properties().get(self._property)
        if text is None:
            return TablePositions(), 0
        value = json.loads(text)
        return TablePositions.from_value(value["positions"]), int(value["number"])

    def _loaded(self, name: str) -> Any:
        """Iceberg's own table: only its Java interface commits both at once."""
        util = self._spark._jvm.org.apache.iceberg.spark.Spark3Util  # noqa: SLF001
        table = util.loadIcebergTable(self._spark._jsparkSession, f"{self._namespace}.{name}")  # noqa: SLF001
        table.refresh()
        return table

    def _change(self, name: str, rows: Sequence[Column]) -> Evolution:
        """What the rows change in the table's columns."""
        return evolution(name, columns_of(self._spark.table(f"{self._namespace}.{name}")), rows, iceberg_widens)

    def _evolved(self, name: str, change: Evolution) -> list[Column]:
        table = f"{self._namespace}.{name}"
        self._alter(table, change)
        return columns_of(self._spark.table(table)) if change.added or change.widened else list(change.columns)

    def _alter(self, table: str, change: Evolution) -> None:
        for column in change.widened:
            self._spark.sql(f"ALTER TABLE {table} {widening(column)}")
        if change.added:
            self._spark.sql(f"ALTER TABLE {table} {adding(change.added)}")


def iceberg_widens(ours: Type, theirs: Type) -> bool:
    """Iceberg widens a decimal at the front alone."""
    if str(ours).startswith("decimal"):
        return bool(ours.rpartition(",")[2] == theirs.rpartition(",")[2])
    return is_wider(theirs, ours)
