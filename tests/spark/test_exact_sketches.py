"""Every record of a stream, counted by Spark, for `sublet hot --exact`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession
from sublet.aws.account import AwsAccount
from sublet.operate.cli.main import main
from sublet.spark.exact_sketches import exact_sketches

from infra.local import EmbeddedAws
from tests.contract.dynamodb_tables import create_table
from tests.spark.local_session import local_session

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def spark(embedded_aws: EmbeddedAws) -> Iterator[SparkSession]:
    with local_session(embedded_aws) as session:
        yield session


@pytest.fixture(scope="module")
def stream(embedded_aws: EmbeddedAws) -> str:
    """One shard with 90 plain records of the key big, and 10 of others."""
    kinesis, name = embedded_aws.client("kinesis"), f"hot-{os.getpid()}"
    kinesis.create_stream(StreamName=name, ShardCount=1)
    kinesis.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})
    records = [{"Data": b"x" * 100, "PartitionKey": "big"}] * 90
    records += [{"Data": b"x" * 100, "PartitionKey": f"small-{n}"} for n in range(10)]
    assert kinesis.put_records(StreamName=name, Records=records)["FailedRecordCount"] == 0
    return name


def test_every_record_is_counted(spark: SparkSession, stream: str) -> None:
    now = datetime.now(UTC)
    shards = AwsAccount().reading(stream).list_shards()
    [found] = exact_sketches(spark, stream, shards, now - timedelta(minutes=10), now).values()
    assert (found.records, found.is_sampled, len(found.keys)) == (100, False, 11)
    assert (found.keys[0].name, found.keys[0].records, found.keys[0].bytes) == ("big", 90, 90 * 103)
    assert sum(peak.records for peak in found.peaks) <= 100
    assert sum(found.buckets) == found.load


def test_the_command_counts_with_spark_and_knows_the_keys_by_name(
    spark: SparkSession,
    stream: str,
    embedded_aws: EmbeddedAws,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No worker has read the stream, and no sketch is stored. Spark's session is the one of this process."""
    for name, value in embedded_aws.environment.items():
        monkeypatch.setenv(name, value)
    create_table(embedded_aws.client("dynamodb"), stream, "leaseKey")
    assert main(["hot", "--application", stream, "--stream", stream, "--exact", "--json"]) == 0
    [shard] = json.loads(capsys.readouterr().out)
    assert (shard["verdict"], shard["is_sampled"]) == ("fine", False)
    assert [shard["keys"][0][field] for field in ("name", "at_least")] == [
        "big",
        pytest.approx(0.9, abs=0.01),
    ]
