"""`sublet pipeline`, asked to end in mid-batch: that batch is written completely and committed, and nothing of the
next one."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyspark.sql import DataFrame, SparkSession
from sublet.settings import parse_duration
from sublet.spark.pipeline.layout import write_files
from sublet.spark.pipeline.running import run_pipeline
from sublet.spark.pipeline.settings import Sink, pipeline_settings
from sublet.spark.pipeline.tables import open_tables
from sublet.spark.pipeline.tally import PlainLines, RunTally
from sublet.system.clock import SystemClock

from infra.local import EmbeddedAws
from tests.spark.flight_events import FlightStream
from tests.spark.local_session import ROOT, local_session

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def spark(embedded_aws: EmbeddedAws) -> Iterator[SparkSession]:
    with local_session(embedded_aws) as session:
        yield session


@pytest.mark.parametrize("has_more", [True, False])
def test_the_batch_under_way_is_the_last(
    spark: SparkSession, embedded_aws: EmbeddedAws, tmp_path: Path, has_more: bool
) -> None:
    stream = FlightStream(embedded_aws.client("kinesis"), f"ends-{os.getpid()}-{time.time_ns()}")
    stream.produce(100)
    first = len(stream.produced)
    asked: list[str] = []

    def asked_in_mid_batch(frame: DataFrame, folder: str, partitions: Sequence[str]) -> None:
        write_files(frame, folder, partitions)
        if not asked:
            asked.append(folder)
            if has_more:
                stream.produce(50)
                time.sleep(1)

    given = pipeline_settings(
        output=str(tmp_path / "lake"),
        checkpoint=None,
        sink=Sink.PARQUET,
        schema=str(ROOT / "examples" / "pipeline" / "flights.json"),
        transform=None,
        every=parse_duration("every", "100ms"),
        options={"stream": stream.name},
        spark={},
    )
    tally, tables = RunTally(), open_tables(spark, given, asked_in_mid_batch)
    run_pipeline(spark, given, tally, PlainLines(print), SystemClock(), lambda: bool(asked), tables)
    assert asked[0].endswith("raw"), "asked before the batch's other tables were written"
    assert tally.rows["raw"] == first == tally.rows["parsed"] + tally.rows["rejected"]
    assert ds.dataset(tmp_path / "lake" / "raw", partitioning="hive").count_rows() == first
    commits = {path.name for path in (tmp_path / "lake" / "_checkpoint" / "commits").glob("[0-9]*")}
    assert commits == {"0"}, "Spark has noted the batch"
