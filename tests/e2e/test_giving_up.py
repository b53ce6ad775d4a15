"""A Powertools handler that fails for one record: on the embedded Lambda, in a process that is killed, and redriven."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from sublet.aws.set_aside.failure_destinations import SqsDestination
from sublet.aws.set_aside.s3_store import S3Destination
from sublet.ports import KeptBatch, SetAsideStore
from sublet.protocol.failure_document import SetAsideBatch

from infra.local import EmbeddedAws
from infra.local import embedded_aws as start_embedded_aws
from infra.local.embedded import ACCOUNT, REGION, ROOT
from tests.e2e.deliveries import Delivery, Recorder, wait_until
from tests.e2e.fleet import HANDLERS, Fleet, deployed
from tests.e2e.processes import running
from tests.exploring import explores

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

KEYS = [f"key-{n}" for n in range(20)]
POISON = "key-7/0"
HANDLER = {"handler": "poisoned:handler", "handler_contract": "lambda_event"}
GIVES_UP = {**HANDLER, "maximum_retry_attempts": "1", "handler_backoff": "100ms", "handler_attempts": "20"}


@dataclass(frozen=True)
class Destination:
    """copies  of what is set aside twice: a bucket recognizes duplicates, a plain queue does not"""

    arn: str
    store: SetAsideStore
    copies: int

    def kept(self, fleet: Fleet) -> list[SetAsideBatch]:
        """All of it, in order; and left for the redrive."""
        found = []
        for each in self.store.kept(fleet.outputs["LeaseTable"]):
            assert isinstance(each, KeptBatch)
            assert each.batch, each
            self.store.leave(each)
            found.append(each.batch)
        return found


@pytest.fixture(scope="module")
def aws() -> Iterator[EmbeddedAws]:
    """Separate, because what is deployed here goes on ticking until it ends."""
    with start_embedded_aws() as aws:
        yield aws


@pytest.fixture(params=[pytest.param(each, marks=explores) for each in ("sqs", "s3")])
def application(request: pytest.FixtureRequest) -> str:
    test = "killed" if "killed" in request.node.name else "deployed"
    return f"{test}-{request.param}"


@pytest.fixture
def destination(aws: EmbeddedAws, application: str) -> Destination:
    name = f"{application}-given-up"
    if application.endswith("sqs"):
        aws.client("sqs").create_queue(QueueName=name)
        arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"
        return Destination(arn, SqsDestination(lambda: aws.client("sqs"), arn, long_poll=0), copies=2)
    aws.client("s3").create_bucket(Bucket=name)
    store = S3Destination(lambda: aws.client("s3"), name, "aside")
    return Destination(f"arn:aws:s3:::{name}/aside", store, copies=1)


def test_poison_record_on_lambda_is_set_aside_and_redriven(
    aws: EmbeddedAws, application: str, destination: Destination, tmp_path: Path
) -> None:
    """Powertools returns what failed. So, as with an event source mapping, the records after the poison record in its
    batch are set aside with it."""
    (tmp_path / "poison").write_text(POISON)
    context = {**GIVES_UP, "batch_size": "5", "on_failure": destination.arn}
    with deployed(aws, application, tmp_path, **context) as fleet:
        fleet.produce(KEYS)
        fleet.tick()
        fleet.recorder.wait_for(set(fleet.put) - {POISON}, 60)
        wait_until(lambda: bool(destination.kept(fleet)), 60, lambda: "nothing was set aside")
        rows = fleet.wait_until_free()
        (aside,) = destination.kept(fleet)
        poison = redriven_once_mended(fleet, destination, tmp_path)
        assert not destination.kept(fleet)
    first, *following = aside.records
    assert first.data.decode() == POISON
    assert (aside.shard_id, first.sequence_number) == (poison.shard_id, poison.sequence_number)
    assert aside.condition == "RetryAttemptsExhausted"
    assert len(following) < 5
    assert {row["checkpoint"]["S"] for row in rows.values()} == last_positions(fleet)


@explores
def test_fleet_killed_between_set_aside_and_checkpoint_loses_nothing(
    aws: EmbeddedAws, application: str, destination: Destination, tmp_path: Path
) -> None:
    (tmp_path / "poison").write_text(POISON)
    aws.client("kinesis").create_stream(StreamName=application, ShardCount=1)
    aws.client("kinesis").get_waiter("stream_exists").wait(StreamName=application, WaiterConfig={"Delay": 1})
    fleet = Fleet(aws, application, {"LeaseTable": application}, Recorder(tmp_path))
    fleet.produce(KEYS)
    environment = environment_of(
        fleet,
        tmp_path,
        **GIVES_UP,
        on_failure=destination.arn,
        batch_size="1",
        worker_id="the-only-one",
        failover_time="3s",
        heartbeat_interval="1s",
    )

    with running(environment, tmp_path, "-m", "tests.e2e.killed_before_checkpoint") as process:
        assert process.wait(60) == -signal.SIGKILL, (tmp_path / "log").read_text()
    (aside,) = destination.kept(fleet)
    assert [record.data.decode() for record in aside.records] == [POISON]
    poison = int(aside.records[0].sequence_number)
    assert not is_past(fleet, poison), "it was killed before the checkpoint"

    with running(environment, tmp_path, "-m", "sublet", "run") as process:
        fleet.recorder.wait_for(set(fleet.put) - {POISON}, 60)
        wait_until(partial(is_past, fleet, poison), 60, lambda: f"no checkpoint: {fleet.leases()}")
        process.terminate()
        assert process.wait(60) == 0, (tmp_path / "log").read_text()
    again = destination.kept(fleet)
    assert [each.records for each in again] == [aside.records] * destination.copies

    redriven_once_mended(fleet, destination, tmp_path)
    assert not destination.kept(fleet)
    assert [delivery.text for delivery in fleet.recorder.deliveries()].count(POISON) == 1
    assert {row["checkpoint"]["S"] for row in fleet.leases().values()} == last_positions(fleet)


def redriven_once_mended(fleet: Fleet, destination: Destination, folder: Path) -> Delivery:
    """`sublet redrive` while the handler still fails, and after it is fixed; returns what happened to the poison
    record then."""
    kept = len(destination.kept(fleet))
    arguments = ["-m", "sublet", "redrive", "--from", destination.arn]
    environment = environment_of(fleet, folder, **HANDLER)
    with running(environment, folder, *arguments) as process:
        assert process.wait(60) == 1, (folder / "log").read_text()
    assert len(destination.kept(fleet)) == kept, "it stays"
    (folder / "poison").unlink()
    with running(environment, folder, *arguments) as process:
        assert process.wait(60) == 0, (folder / "log").read_text()
    (delivery,) = (each for each in fleet.recorder.deliveries() if each.text == POISON)
    return delivery


def environment_of(fleet: Fleet, folder: Path, **settings: str) -> dict[str, str]:
    """For a process of the same application."""
    settings = {"application": fleet.outputs["LeaseTable"], "stream": fleet.stream, **settings}
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, HANDLERS))),
        "RECORDER_DIRECTORY": str(folder),
        **fleet.aws.environment,
        **{f"SUBLET_{name.upper()}": value for name, value in settings.items()},
    }


def is_past(fleet: Fleet, number: int) -> bool:
    (row,) = fleet.leases().values()
    return row["checkpoint"]["S"].isdecimal() and int(row["checkpoint"]["S"]) >= number


def last_positions(fleet: Fleet) -> set[str]:
    """Of each shard that has records; every record has been handled by now."""
    deliveries = fleet.recorder.deliveries()
    assert {delivery.text for delivery in deliveries} == set(fleet.put)
    shards = {delivery.shard_id for delivery in deliveries}
    return {str(max(int(each.sequence_number) for each in deliveries if each.shard_id == shard)) for shard in shards}
