"""The source in SQL: a stream as a temporary view. A table is refused with what to write instead."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from sublet.spark import drain

from infra.local import EmbeddedAws
from tests.spark.kinesis_stream import BusyStream
from tests.spark.local_session import local_session

pytestmark = pytest.mark.timeout(300)

A_VIEW = "CREATE TEMPORARY VIEW <name> USING sublet OPTIONS"


@pytest.fixture(scope="module")
def spark(embedded_aws: EmbeddedAws, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    warehouse = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    with local_session(embedded_aws, warehouse) as session:
        yield session


@pytest.fixture(scope="module")
def stream(embedded_aws: EmbeddedAws) -> BusyStream:
    busy = BusyStream(embedded_aws.client("kinesis"), f"sql-{os.getpid()}", 1)
    busy.produce()
    return busy


def test_temporary_view_has_what_was_there_when_it_was_first_queried(spark: SparkSession, stream: BusyStream) -> None:
    create = f"TEMPORARY VIEW orders USING sublet OPTIONS (stream '{stream.name}', startPosition 'earliest')"
    count = "SELECT count(*) AS rows, count(DISTINCT data) AS numbers FROM orders"
    spark.sql(f"CREATE {create}")
    before = len(stream.produced)
    assert spark.sql(count).first() == (before, before)
    stream.produce()
    assert spark.sql(count).first() == (before, before), "Spark plans the view's read once"
    spark.sql(f"CREATE OR REPLACE {create}")
    assert spark.sql(count).first() == (len(stream.produced), len(stream.produced))


def test_view_of_a_streaming_dataframe_is_queried_by_sql(
    spark: SparkSession, stream: BusyStream, tmp_path: Path
) -> None:
    rows = spark.readStream.format("sublet").options(stream=stream.name, availableNow="true").load()
    rows.createOrReplaceTempView("live")
    numbers = spark.sql("SELECT CAST(data AS INT) AS number FROM (SELECT CAST(data AS STRING) AS data FROM live)")
    at = {"path": str(tmp_path / "rows"), "checkpointLocation": str(tmp_path / "checkpoint")}
    drain(numbers.writeStream.format("parquet").options(**at).start())
    assert sorted(row.number for row in spark.read.parquet(at["path"]).collect()) == list(range(len(stream.produced)))


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE refused_1 USING sublet OPTIONS (stream 'orders')",
        "CREATE TABLE refused_2 USING sublet OPTIONS (stream 'orders') LOCATION '/tmp/nowhere'",
        "CREATE TABLE refused_3 USING sublet OPTIONS (stream 'orders') AS SELECT X'01' AS data, 'k' AS partitionKey",
    ],
)
def test_table_is_refused_with_the_view_to_create_instead(spark: SparkSession, statement: str) -> None:
    with pytest.raises(PySparkException) as refused:
        spark.sql(statement)
    assert A_VIEW in str(refused.value).splitlines()[0]


def test_table_with_columns_is_refused_when_it_is_read(spark: SparkSession) -> None:
    """Spark creates it without asking the source."""
    spark.sql("CREATE TABLE asked_later (data BINARY) USING sublet OPTIONS (stream 'orders')")
    with pytest.raises(PySparkException) as refused:
        spark.sql("SELECT * FROM asked_later").collect()
    assert A_VIEW in str(refused.value)
    spark.sql("DROP TABLE asked_later")
