"""The data source that Spark knows as `sublet`. It finds it through the module `pyspark_sublet`."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from sublet.errors import SettingsError
from sublet.spark.batch import BatchReader
from sublet.spark.connection import (
    connect_driver,
    connect_keeper,
    connect_leases,
    connect_task,
    connect_writer,
)
from sublet.spark.options import Options, Use, parse_options
from sublet.spark.rows import ARROW_SCHEMA, SCHEMA_DDL
from sublet.spark.sink import BatchWriter, StreamWriter, check_columns
from sublet.spark.streaming import StreamReader

_SPARKS_OWN = frozenset({"checkpointlocation", "queryname"})


class SubletDataSource(DataSource):
    """`spark.readStream`, `spark.read`, `df.writeStream` and `df.write`, each with `.format("sublet")`."""

    @classmethod
    def name(cls) -> str:
        return "sublet"

    def schema(self) -> str:
        """Asked for at `load()`: so that is where a wrong option is refused."""
        parse_options(self.options, None)
        return SCHEMA_DDL

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802
        options = self._options(schema, Use.STREAM)
        return StreamReader(options, connect_driver, connect_leases, connect_keeper, connect_task)

    def reader(self, schema: StructType) -> BatchReader:
        return BatchReader(self._options(schema, Use.BATCH), connect_task)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        if overwrite:
            raise SettingsError("mode", "overwrite", "append: records of a stream cannot be replaced")
        return BatchWriter(self._write_options(schema), connect_writer)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        if overwrite:
            raise SettingsError(
                "outputMode", "complete", "append or update: records of a stream cannot be replaced"
            )
        return StreamWriter(self._write_options(schema), connect_writer)

    def _write_options(self, schema: StructType) -> Options:
        """Spark hands on the query's own options too."""
        check_columns(schema)
        ours = {key: text for key, text in self.options.items() if key.lower() not in _SPARKS_OWN}
        return parse_options(ours, Use.WRITE)

    def _options(self, schema: StructType, use: Use) -> Options:
        if not to_arrow_schema(schema, timezone="UTC").equals(ARROW_SCHEMA):
            raise SettingsError(
                "schema", schema.simpleString(), f"the source's own: leave .schema() out ({SCHEMA_DDL})"
            )
        return parse_options(self.options, use)
