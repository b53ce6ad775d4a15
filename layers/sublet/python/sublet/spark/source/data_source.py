"""The data source that Spark knows as `sublet`. Spark finds it through the module `pyspark_sublet`."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any, NoReturn

from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from sublet.aws.assumed_roles import connection_of
from sublet.aws.clients import dynamodb_client, kinesis_put_client
from sublet.aws.kinesis.put_records import KinesisWriter
from sublet.aws.tables.lease_table import DynamoDbLeaseTable
from sublet.aws.tables.sightings import DynamoDbSightingStore
from sublet.errors import SettingsError, SubletError, TransientError
from sublet.ports import LeaseTable, SightingStore
from sublet.spark.keeper.keeper_thread import connect_keeper
from sublet.spark.option_table import parse_options
from sublet.spark.options import Leases, Options, UseOfLeases
from sublet.spark.plain_errors import plainly
from sublet.spark.read.connection import StreamAccess, connect_batch, connect_driver, connect_task
from sublet.spark.read.found_streams import existing_streams
from sublet.spark.read.rows import ARROW_SCHEMA, SCHEMA_DDL
from sublet.spark.release import arrow_schema, for_this_release
from sublet.spark.source.batch_read import BatchReader
from sublet.spark.source.stream_read import StreamReader
from sublet.spark.write.sink import BatchWriter, StreamWriter, check_columns, check_keyless

_SPARKS_OWN = frozenset({"checkpointlocation", "queryname"})


class SubletDataSource(DataSource):
    """`spark.readStream`, `spark.read`, `df.writeStream` and `df.write`, each with `.format("sublet")`."""

    @classmethod
    def name(cls) -> str:
        return "sublet"

    @plainly
    def schema(self) -> str:
        """Spark calls this at `load()`, so wrong options are refused there, and a stream that does not exist or may
        not be read. Transient errors are left to the query."""
        options = parse_options(self.options, None)
        with suppress(TransientError):
            existing_streams(options)
        return SCHEMA_DDL

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Does not raise: Spark would call `stop` on a reader that it does not have, and show that error instead."""
        try:
            options = self._options(schema, UseOfLeases.STREAM)
        except SubletError as refusal:
            return _RefusedReader(refusal)
        return for_this_release(StreamReader(options, connect_driver, connect_leases, connect_keeper, connect_task))

    @plainly
    def reader(self, schema: StructType) -> BatchReader:
        return BatchReader(self._options(schema, UseOfLeases.BATCH), connect_batch, connect_task)

    @plainly
    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        if overwrite:
            raise SettingsError("mode", "overwrite", "append: records of a stream cannot be replaced")
        return BatchWriter(self._write_options(schema), connect_writer)

    @plainly
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        if overwrite:
            raise SettingsError("outputMode", "complete", "append or update: records of a stream cannot be replaced")
        return StreamWriter(self._write_options(schema), connect_writer)

    def _write_options(self, schema: StructType) -> Options:
        """Takes our options out of Spark's, which passes the query's own too."""
        check_columns(schema)
        ours = {key: text for key, text in self.options.items() if key.lower() not in _SPARKS_OWN}
        options = parse_options(ours, UseOfLeases.WRITE)
        if "partitionKey" not in schema.fieldNames():
            check_keyless(connect_task(options))
        return options

    def _options(self, schema: StructType, use: UseOfLeases) -> Options:
        options = parse_options(self.options, use)
        if not arrow_schema(schema).equals(ARROW_SCHEMA):
            raise SettingsError(
                "schema", schema.simpleString(), f"the source's own: leave .schema() out ({SCHEMA_DDL})"
            )
        return options


class _RefusedReader(DataSourceStreamReader):
    """The reader of a query that is refused: every method raises the reason. `latestOffset` has Spark 4.0's signature,
    which later releases accept too.
    """

    def __init__(self, refusal: SubletError) -> None:
        self._refusal = refusal

    @plainly
    def initialOffset(self) -> NoReturn:  # noqa: N802
        raise self._refusal

    @plainly
    def latestOffset(self) -> NoReturn:  # noqa: N802
        raise self._refusal

    @plainly
    def partitions(self, *_: Any) -> NoReturn:
        raise self._refusal

    @plainly
    def read(self, *_: Any) -> NoReturn:
        raise self._refusal


def connect_leases(options: Options) -> tuple[LeaseTable, SightingStore] | None:
    """Returns the table to start from, and what its application remembers; None if the query follows no application."""
    if options.leases is not Leases.FOLLOW:
        return None
    way, settings = connection_of(options.lease_access), options.settings
    return (
        DynamoDbLeaseTable(dynamodb_client(*way), settings.lease_table, several=options.streams is not None),
        DynamoDbSightingStore(partial(dynamodb_client, *way), settings.sightings_table),
    )


def connect_writer(options: Options) -> tuple[KinesisWriter, StreamAccess]:
    """Connects for puts, and for listing the shards."""
    client = kinesis_put_client(*connection_of(options.access))
    return KinesisWriter(client, options.settings), connect_task(options)
