"""Writes a batch into Iceberg tables of one of the session's catalogs, each in one snapshot.

A batch replaces the table's rows of the same pipeline and batch, which an earlier attempt may have written. Each file
has rows of only one batch, so Iceberg drops whole files and rewrites none.
"""

from __future__ import annotations

from collections.abc import Mapping

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from sublet.errors import SettingsError
from sublet.spark.pipeline.parquet_tables import BATCH, partition_columns

PIPELINE = "pipeline"
"""The column with the pipeline's id, which has 16 characters, so that Iceberg's column statistics hold all of it."""

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

    def __init__(self, spark: SparkSession, namespace: str, pipeline_id: str) -> None:
        self._namespace, self._id = namespace, pipeline_id
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")

    def write(self, tables: Mapping[str, DataFrame], batch: int) -> dict[str, int]:
        """Writes a batch, and returns the rows by table. After any failure, repeating the call leaves each row once."""
        return {name: self._write(f"{self._namespace}.{name}", frame, batch) for name, frame in tables.items()}

    def _write(self, table: str, frame: DataFrame, batch: int) -> int:
        rows = int(frame.count())
        numbered = frame.withColumn(BATCH, F.lit(batch).cast("bigint")).withColumn(PIPELINE, F.lit(self._id))
        if frame.sparkSession.catalog.tableExists(table):
            numbered.writeTo(table).overwrite((F.col(BATCH) == batch) & (F.col(PIPELINE) == self._id))
        elif rows:
            writer = numbered.writeTo(table).using("iceberg")
            columns = [F.col(name) for name in partition_columns(frame)]
            (writer.partitionedBy(*columns) if columns else writer).create()
        return rows
