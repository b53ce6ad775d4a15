"""Iceberg and Delta by their own jars, on the releases of Spark that both support: `make test-lake`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from sublet.errors import SettingsError
from sublet.protocol.checkpoint import Checkpoint
from sublet.spark import drain
from sublet.spark.pipeline.file_system import SparkFiles
from sublet.spark.pipeline.iceberg_tables import IcebergTables
from sublet.spark.pipeline.layout import Batch, Layout
from sublet.spark.pipeline.running import run_pipeline
from sublet.spark.pipeline.settings import Sink, pipeline_settings
from sublet.spark.pipeline.tables import claim
from sublet.spark.pipeline.tally import PlainLines, RunTally
from sublet.spark.plan.table_positions import BatchExtent, ShardExtent, TablePositions
from sublet.system.clock import SystemClock

from infra.local import EmbeddedAws
from tests.spark.flight_events import FlightStream
from tests.spark.kinesis_stream import BusyStream
from tests.spark.lake_session import (
    DELTA,
    DELTA_EXTENSIONS,
    ICEBERG,
    ICEBERG_EXTENSIONS,
    JARS,
    lake_session,
    skip_without_jars,
)
from tests.spark.local_session import ROOT
from tests.spark.processes import kill_session

EXAMPLE = ROOT / "examples" / "pipeline"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

skip_without_jars()


def run(aws: EmbeddedAws, moment: int, stream: FlightStream, folder: Path) -> tuple[int, dict[str, list[list[object]]]]:
    """The exit code of a run that dies at that moment; and the tables' content after one that does not."""
    command = [
        sys.executable,
        "-m",
        "tests.spark.lake_program",
        str(moment),
        "--available-now",
        "--sink",
        "iceberg",
    ]
    command += [
        "--stream",
        stream.name,
        "--output",
        "lake.flights",
        "--checkpoint",
        str(folder / "checkpoint"),
    ]
    command += ["--schema", str(EXAMPLE / "flights.json"), "--option", "maxRecordsPerTrigger=60"]
    conf = {
        **ICEBERG,
        "spark.sql.extensions": ICEBERG_EXTENSIONS,
        "spark.sql.catalog.lake.warehouse": str(folder / "lake"),
        "spark.jars": ",".join(map(str, JARS)),
    }
    for name, value in {**conf, "spark.master": "local[2]", "spark.ui.enabled": "false"}.items():
        command += ["--conf", f"{name}={value}"]
    environment = {**os.environ, **aws.environment, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, start_new_session=True, stdout=subprocess.PIPE, text=True
    ) as program:
        try:
            said, _ = program.communicate(timeout=600)
        finally:
            kill_session(program.pid)
    return program.returncode, dict(json.loads(line) for line in said.splitlines() if line.startswith('["'))


def test_an_iceberg_table_is_written_killed_and_resumed(embedded_aws: EmbeddedAws, tmp_path: Path) -> None:
    """Between two tables of a batch, and after the last one, before Spark has noted the batch."""
    stream = FlightStream(embedded_aws.client("kinesis"), f"iceberg-{os.getpid()}")
    for moment in (1, 3):
        stream.produce(40)
        time.sleep(1.1)
        assert run(embedded_aws, moment, stream, tmp_path)[0] == -signal.SIGKILL
    code, tables = run(embedded_aws, -1, stream, tmp_path)
    assert code == 0
    positions = {name: Counter((str(number), sub) for number, sub in rows) for name, rows in tables.items()}
    assert len(positions["raw"]) == len(stream.produced), "missing"
    assert set(positions["raw"].values()) == {1}, "twice"
    assert positions["raw"] == positions["parsed"] + positions["rejected"]


@pytest.fixture
def iceberg(embedded_aws: EmbeddedAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    extended = {"spark.sql.extensions": ICEBERG_EXTENSIONS}
    conf = {**ICEBERG, **extended, "spark.sql.catalog.lake.warehouse": str(tmp_path / "lake")}
    monkeypatch.syspath_prepend(str(EXAMPLE))
    with lake_session(embedded_aws, conf) as session:
        yield session


class DiesBeforePublishing(IcebergTables):
    """Stages the rows of the second table, and fails before they are the table's."""

    published = 0

    def _publish(self, name: str, reached: TablePositions, number: int, attempt: str | None) -> None:
        self.published += 1
        if self.published == 2:
            raise ConnectionError("the catalog is out of reach")
        super()._publish(name, reached, number, attempt)


def test_iceberg_positions_outlive_maintenance_and_a_restored_checkpoint(
    iceberg: SparkSession, embedded_aws: EmbeddedAws, tmp_path: Path
) -> None:
    stream = FlightStream(embedded_aws.client("kinesis"), f"kept-{os.getpid()}")
    checkpoint = tmp_path / "checkpoint"

    def load(
        flights: int,
        *,
        schema: str = str(EXAMPLE / "flights.json"),
        dies: bool = False,
        checkpoint: Path = tmp_path / "checkpoint",
    ) -> RunTally:
        stream.produce(flights)
        time.sleep(1.1)
        given = pipeline_settings(
            output="lake.flights",
            checkpoint=str(checkpoint),
            sink=Sink.ICEBERG,
            schema=schema,
            transform="carriers:tables",
            every=None,
            options={"stream": stream.name},
            spark={},
        )
        tables = None
        if dies:
            layout = Layout(given.partition_by, given.file_size)
            tables = DiesBeforePublishing(iceberg, given.output, claim(SparkFiles(iceberg), given).id, layout)
        tally = RunTally()
        run_pipeline(iceberg, given, tally, PlainLines(print), SystemClock(), lambda: False, tables)
        return tally

    def assert_each_once() -> None:
        found = {name: iceberg.table(f"lake.flights.{name}") for name in ("raw", "parsed", "rejected", "carriers")}
        raw = Counter(bytes(row.data) for row in found["raw"].select("data").collect())
        assert raw == Counter(stream.produced)
        assert sorted(row.number for row in found["parsed"].select("number").collect()) == stream.numbers
        assert sorted(bytes(row.data) for row in found["rejected"].collect()) == sorted(stream.misfits)
        assert sum(row.flights for row in found["carriers"].collect()) == len(stream.numbers)

    with pytest.raises(PySparkException, match="the catalog is out of reach"):
        load(20, dies=True)
    load(0)
    assert_each_once()
    with pytest.raises(SettingsError, match="the output needs its own checkpoint"):
        load(0, checkpoint=tmp_path / "another")
    shutil.copytree(checkpoint, tmp_path / "copy")
    load(20)
    for name in ("raw", "parsed", "rejected", "carriers"):
        table = f"table => 'flights.{name}'"
        iceberg.sql(f"CALL lake.system.rewrite_data_files({table}, options => map('min-input-files', '2'))").collect()
        iceberg.sql(
            f"CALL lake.system.expire_snapshots({table}, older_than => TIMESTAMP '2099-01-01', retain_last => 1)"
        ).collect()
        assert iceberg.table(f"lake.flights.{name}.snapshots").count() == 1
    shutil.rmtree(checkpoint)
    shutil.copytree(tmp_path / "copy", checkpoint)
    before = len(stream.produced)
    assert load(20).rows["raw"] == len(stream.produced) - before, "the run says what it wrote"
    assert_each_once()
    fields = json.loads((EXAMPLE / "flights.json").read_text())["fields"]
    wider = [{**each, "type": "long"} if each["name"] == "flight" else each for each in fields]
    wider.append({"name": "gate", "type": "string", "nullable": True, "metadata": {}})
    (tmp_path / "wider.json").write_text(json.dumps({"type": "struct", "fields": wider}))
    load(5, schema=str(tmp_path / "wider.json"))
    parsed = iceberg.table("lake.flights.parsed")
    assert dict(parsed.dtypes)["flight"] == "bigint"
    assert dict(parsed.dtypes)["gate"] == "string"
    assert_each_once()
    wrong = [{**each, "type": "string"} if each["name"] == "flight" else each for each in fields]
    (tmp_path / "wrong.json").write_text(json.dumps({"type": "struct", "fields": wrong}))
    with pytest.raises(PySparkException, match=r"parsed\.flight': the table has bigint, and these rows have string"):
        load(5, schema=str(tmp_path / "wrong.json"))


class BesideAnother(IcebergTables):
    """A driver beside which another one writes the same batch, once, just before the call named `at`."""

    at = ""
    other: Callable[[], object]
    """Writes the batch."""

    def _publish(self, name: str, reached: TablePositions, number: int, attempt: str | None) -> None:
        self._meanwhile("_publish")
        super()._publish(name, reached, number, attempt)

    def _staged(self, name: str, attempt: str) -> int:
        self._meanwhile("_staged")
        return super()._staged(name, attempt)

    def _meanwhile(self, call: str) -> None:
        if call == self.at:
            self.at = ""
            self.other()


@pytest.mark.parametrize(
    ("at", "says"), [("_publish", "run one at a time"), ("_staged", "already published|Duplicate|has been published")]
)
def test_of_two_drivers_that_write_an_iceberg_table_at_once_one_commits(
    iceberg: SparkSession, at: str, says: str
) -> None:
    """`_staged` is after the first driver's look at the number, within its transaction."""

    def opened(kind: type[IcebergTables] = IcebergTables) -> IcebergTables:
        return kind(iceberg, f"lake.two{at}", "pipeline", Layout((), 2**20))

    def write(tables: IcebergTables, number: int) -> dict[str, int]:
        place = Checkpoint(str(number))
        extent = BatchExtent({"orders/shardId-0": ShardExtent(place, place, number)}, 1, 10)
        return tables.write({"parsed": iceberg.range(1).selectExpr(f"{number}L as id")}, Batch(number, extent))

    def assert_holds(*wanted: int) -> None:
        assert sorted(row.id for row in iceberg.table(f"lake.two{at}.parsed").select("id").collect()) == list(wanted)

    assert write(opened(), 1) == {"parsed": 1}
    first = opened(BesideAnother)
    assert isinstance(first, BesideAnother)
    first.at, first.other = at, lambda: write(opened(), 2)
    with pytest.raises((SettingsError, Py4JJavaError), match=says):
        write(first, 2)
    assert_holds(1, 2)
    assert write(opened(), 2) == {"parsed": 0}
    assert write(opened(), 3) == {"parsed": 1}
    assert_holds(1, 2, 3)


def test_rows_cut_at_positions_that_another_driver_has_moved_are_refused_on_iceberg(iceberg: SparkSession) -> None:
    def opened() -> IcebergTables:
        return IcebergTables(iceberg, "lake.stale", "pipeline", Layout((), 2**20))

    def batch(number: int) -> Batch:
        place = Checkpoint(str(number))
        return Batch(number, BatchExtent({"orders/shardId-0": ShardExtent(place, place, number)}, 1, 10))

    rows = iceberg.range(1)
    opened().write({"parsed": rows}, batch(1))
    stale = opened()
    assert str(stale.positions("parsed").shards["orders/shardId-0"].checkpoint) == "1"
    opened().write({"parsed": rows}, batch(2))
    with pytest.raises(SettingsError, match="run one at a time"):
        stale.write({"parsed": rows}, batch(3))
    assert iceberg.table("lake.stale.parsed").count() == 2


def test_nested_column_with_a_name_that_needs_quotes_is_added_on_iceberg(iceberg: SparkSession) -> None:
    tables = IcebergTables(iceberg, "lake.nested", "pipeline", Layout((), 2**20))
    for number, columns in enumerate(["id", "id, named_struct('content-type', 'text') AS meta"], start=1):
        place = Checkpoint(str(number))
        extent = BatchExtent({"orders/shardId-0": ShardExtent(place, place, number)}, 1, 10)
        tables.write({"parsed": iceberg.range(1).selectExpr(*columns.split(", ", 1))}, Batch(number, extent))
    found = iceberg.sql("SELECT meta.`content-type` FROM lake.nested.parsed ORDER BY 1").collect()
    assert [row[0] for row in found] == [None, "text"]


def test_column_added_in_mid_run_is_seen_through_a_cache_of_the_catalog(
    embedded_aws: EmbeddedAws, tmp_path: Path
) -> None:
    """A micro-batch's session has a catalog of its own, which keeps a table's columns for 30 s by Iceberg's default."""
    cached = {name: value for name, value in ICEBERG.items() if not name.endswith("cache-enabled")}
    conf = {**cached, "spark.sql.extensions": ICEBERG_EXTENSIONS, "spark.sql.catalog.lake.warehouse": str(tmp_path)}
    with lake_session(embedded_aws, conf) as session:
        tables = IcebergTables(session, "lake.cached", "pipeline", Layout((), 2**20))

        def write(rows: DataFrame, number: int) -> None:
            place = Checkpoint(str(number + 1))
            extent = BatchExtent({"orders/shardId-0": ShardExtent(place, place, number)}, 1, 10)
            frame = rows.selectExpr("value as id", *(f"1 as more{index}" for index in range(number)))
            tables.write({"parsed": frame}, Batch(number, extent))

        source = session.readStream.format("rate-micro-batch").options(rowsPerBatch=1, numPartitions=1).load()
        query = source.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "at")).start()
        try:
            while query.isActive and (query.lastProgress is None or query.lastProgress.batchId < 2):
                time.sleep(0.1)
            assert query.exception() is None
        finally:
            query.stop()
        assert session.table("lake.cached.parsed").where("more1 = 1").count() > 0


@pytest.fixture
def delta(embedded_aws: EmbeddedAws) -> Iterator[SparkSession]:
    with lake_session(embedded_aws, {**DELTA, "spark.sql.extensions": DELTA_EXTENSIONS}) as session:
        yield session


def test_a_stream_into_a_delta_table_by_delta_s_own_sink(
    delta: SparkSession, embedded_aws: EmbeddedAws, tmp_path: Path
) -> None:
    stream = BusyStream(embedded_aws.client("kinesis"), f"delta-jar-{os.getpid()}", 3)
    for _ in range(2):
        stream.produce()
        stream.reshard()
        stream.produce()
        time.sleep(1.1)
        rows = delta.readStream.format("sublet").options(stream=stream.name, availableNow="true").load()
        writer = rows.writeStream.format("delta").option("checkpointLocation", str(tmp_path / "checkpoint"))
        drain(writer.start(str(tmp_path / "table")))
        found = delta.read.format("delta").load(str(tmp_path / "table")).select("data").collect()
        assert sorted((bytes(row["data"]) for row in found), key=int) == stream.produced
