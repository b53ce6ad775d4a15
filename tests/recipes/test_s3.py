"""Files in an emulated S3: each record in exactly one, through crashes at any line, zombies, reshards and SIGKILL."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sublet.testing import MemoryConsumer, SimulatedRun, simulate

from examples.recipes.s3 import rolling_files
from infra.local import EmbeddedAws
from tests.exploring import explores
from tests.recipes.recipe_runs import RECIPES, RecipeRuns, put

pytestmark = [pytest.mark.emulator, explores, pytest.mark.timeout(300)]


class Bucket:
    """name   of a bucket that is empty at first"""

    def __init__(self, aws: EmbeddedAws, name: str) -> None:
        self.client: Any = aws.client("s3")
        self.name = name
        self.client.create_bucket(Bucket=name)

    def keys(self) -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name)
        return [each["Key"] for page in pages for each in page.get("Contents", ())]

    def lines(self) -> list[bytes]:
        return [line for key in self.keys() for line in self.read(key).splitlines()]

    def read(self, key: str) -> bytes:
        return gzip.decompress(self.client.get_object(Bucket=self.name, Key=key)["Body"].read())

    def clear(self) -> None:
        for key in self.keys():
            self.client.delete_object(Bucket=self.name, Key=key)


@pytest.fixture
def bucket(aws: EmbeddedAws, stream: str, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    monkeypatch.setenv("OUT_BUCKET", stream)
    monkeypatch.setattr(rolling_files, "s3", client := _cached(lambda: aws.client("s3")))
    monkeypatch.setattr(rolling_files, "ROLL_BYTES", 150)
    client()
    return Bucket(aws, stream)


def _cached(create: Callable[[], Any]) -> Callable[[], Any]:
    client = create()
    return lambda: client


def test_each_record_is_in_one_file_through_crashes_zombies_and_reshards(bucket: Bucket) -> None:
    def check(run: SimulatedRun) -> None:
        given = {delivery.record.data for delivery in run.deliveries}
        assert sorted(bucket.lines()) == sorted(given)
        assert len(given) == run.records
        bucket.clear()

    simulation = simulate(rolling_files.RollingFiles, seeds=4, check=check, checkpointing="manual")
    assert simulation.repeating


def test_file_is_written_again_when_killed_between_file_and_checkpoint(
    aws: EmbeddedAws, stream: str, bucket: Bucket, tmp_path: Path
) -> None:
    records = [b"%06d" % number for number in range(100)]
    put(aws, stream, [(f"key-{number}", data) for number, data in enumerate(records[:60])])
    runs = RecipeRuns(
        aws,
        stream,
        RECIPES / "s3",
        "rolling_files:files",
        tmp_path,
        {"OUT_BUCKET": stream, "ROLL_BYTES": "100"},
        {"checkpointing": "manual", "batch_size": "7", "window": "10s", "window_margin": "1s"},
    )
    runs.run_until_killed()
    (written,) = bucket.keys()
    content = bucket.read(written)
    put(aws, stream, [(f"key-{number}", data) for number, data in enumerate(records[60:])])
    runs.run_until(lambda: len(bucket.lines()) >= len(records))
    assert sorted(bucket.lines()) == records
    assert bucket.read(written) == content


def test_file_that_s3_refuses_is_written_once_when_it_accepts(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    client, refusals = bucket.client, iter([ConnectionError("503"), ConnectionError("503")])

    class Refusing:
        def put_object(self, **arguments: Any) -> None:
            for refusal in refusals:
                raise refusal
            client.put_object(**arguments)

    monkeypatch.setattr(rolling_files, "s3", Refusing)
    consumer = MemoryConsumer(checkpointing="manual", batch_size=10)
    records = [b"%06d" % number for number in range(50)]
    consumer.put(*records)
    consumer.consume(rolling_files.RollingFiles())
    assert bucket.lines() == records
