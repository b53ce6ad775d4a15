"""`leases=hold` with each format of Spark's offset log: a run continues the one before, and its last commit is seen."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamReader
from sublet.aws.tables.lease_table import DynamoDbLeaseTable
from sublet.spark import drain

from infra.local import EmbeddedAws
from tests.contract.dynamodb_tables import create_table
from tests.spark.kinesis_stream import BusyStream
from tests.spark.local_session import local_session

FORMAT = "spark.sql.streaming.offsetLog.formatVersion"
NAMES = "spark.sql.streaming.queryEvolution.enableSourceEvolution"


@pytest.fixture(scope="module")
def spark(embedded_aws: EmbeddedAws) -> Iterator[SparkSession]:
    with local_session(embedded_aws) as session:
        yield session


class World:
    """A stream, an application's lease table, and a query that holds its leases and is restarted."""

    def __init__(self, aws: EmbeddedAws, spark: SparkSession, folder: Path, name: str) -> None:
        self.spark, self.folder, self.name = spark, folder, f"{name}-{os.getpid()}"
        self.stream = BusyStream(aws.client("kinesis"), self.name, seed=7)
        create_table(aws.client("dynamodb"), self.name, "leaseKey")
        create_table(aws.client("dynamodb"), f"{self.name}-sightings", "chunk")
        self.table = DynamoDbLeaseTable(aws.client("dynamodb"), self.name)

    def run(self, reader: DataStreamReader, **conf: str) -> None:
        """Reads what is there, and ends."""
        checkpoint = str(self.folder / "checkpoint")
        for key, value in conf.items():
            self.spark.conf.set(key, value)
        try:
            rows = (
                reader.format("sublet")
                .options(stream=self.name, application=self.name, leases="hold", failoverTime="6s")
                .options(availableNow="true", checkpointLocation=checkpoint)
                .load()
            )
            writer = rows.writeStream.format("parquet").option("path", str(self.folder / "rows"))
            drain(writer.option("checkpointLocation", checkpoint).start())
        finally:
            for key in conf:
                self.spark.conf.unset(key)
        until = time.monotonic() + 60
        while owned := [lease for lease in self.table.scan().leases if lease.lease_owner]:
            assert time.monotonic() < until, owned
            time.sleep(0.05)

    def rows(self) -> list[bytes]:
        return [row.data for row in self.spark.read.parquet(str(self.folder / "rows")).select("data").collect()]

    def last_rows(self) -> dict[str, tuple[str, int]]:
        """The last record of each shard among the rows, as a checkpoint names it."""
        found: dict[str, tuple[str, int]] = {}
        for row in self.spark.read.parquet(str(self.folder / "rows")).collect():
            at = row.sequenceNumber, row.subSequenceNumber
            found[row.shardId] = max(at, found.get(row.shardId, at), key=lambda each: (int(each[0]), each[1]))
        return found

    def checkpoints(self) -> dict[str, tuple[str, int]]:
        return {
            lease.lease_key: (lease.checkpoint.sequence_number, lease.checkpoint.sub_sequence_number)
            for lease in self.table.scan().leases
            if lease.checkpoint.is_sequence_number
        }

    def log_format(self) -> str:
        offsets = (path for path in (self.folder / "checkpoint" / "offsets").iterdir() if path.name.isdecimal())
        return max(offsets, key=lambda path: int(path.name)).read_text().splitlines()[0]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("version", ["1", "2"])
def test_query_that_holds_leases_continues_in_each_format_of_the_offset_log(
    embedded_aws: EmbeddedAws, spark: SparkSession, tmp_path: Path, version: str
) -> None:
    world = World(embedded_aws, spark, tmp_path, f"offset-log-{version}")
    for _ in range(2):
        world.stream.produce()
        world.run(spark.readStream, **{FORMAT: version})
        assert world.checkpoints() == world.last_rows(), "the commit of the run's last batch is seen"
    if hasattr(DataStreamReader, "name"):  # earlier releases have one format
        assert world.log_format() == f"v{version}"
    assert sorted(world.rows()) == sorted(world.stream.produced)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(not hasattr(DataStreamReader, "name"), reason="sources have names from Spark 4.2 on")
def test_query_whose_source_has_a_name_holds_leases(
    embedded_aws: EmbeddedAws, spark: SparkSession, tmp_path: Path
) -> None:
    world = World(embedded_aws, spark, tmp_path, "offset-log-named")
    for _ in range(2):
        world.stream.produce()
        world.run(spark.readStream.name("orders"), **{NAMES: "true"})
        assert world.checkpoints() == world.last_rows()
    assert "orders:{" in (tmp_path / "checkpoint" / "offsets" / "0").read_text()
    assert sorted(world.rows()) == sorted(world.stream.produced)
