"""The steps of an acceptance run. A step reports to `stage.facts`, and raises if something is wrong."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import cycle, islice
from typing import Any

from botocore.exceptions import ClientError, ParamValidationError

from tests.acceptance.idle_walk import walk
from tests.acceptance.pushed import observed
from tests.acceptance.stage import Consumer, Idle, Stage
from tests.e2e.deliveries import out_of_order, wait_until

KEYS = [f"key-{n}" for n in range(400)]
PATIENCE = 300
"""Seconds until records put are handled: a bound for failures."""
AWAY = timedelta(days=7)
"""The shortest time that AWS keeps a key that is to be deleted."""


class NotOffered(Exception):
    """The emulator lacks the feature; on a real account this is a failure."""


class NotAsItShouldBe(Exception):
    """AWS or sublet did something wrong."""


def put_a_record_and_leave_it(stage: Stage) -> None:
    """The first step, so that the shard is idle while the others run."""
    kinesis, arn = stage.client("kinesis"), stage.make_stream("idle", ShardCount=1)
    put = kinesis.put_record(StreamARN=arn, Data=b"the last one", PartitionKey="key")
    stage.idle = Idle(arn, put["ShardId"], put["SequenceNumber"], time.monotonic())


def deploy(stage: Stage) -> None:
    began = time.monotonic()
    stage.main = stage.deploy_consumer("main", stage.make_stream("main", ShardCount=2))
    stage.facts["deployed in"] = f"{time.monotonic() - began:.0f} s"


def records_through_a_split_and_a_merge(stage: Stage) -> None:
    fleet = _main(stage).fleet
    thirds = [stage.plan.records * n // 3 for n in (1, 2, 3)]
    _produce(stage, thirds[0])
    fleet.tick()
    fleet.split()
    _produce(stage, thirds[1])
    fleet.tick()
    fleet.merge()
    _produce(stage, thirds[2])
    fleet.tick()
    _all_in_order(stage)
    closed = len(fleet.leases()) - len(fleet.open_shards())
    stage.facts["shards ended"] = str(closed)


def a_worker_is_killed(stage: Stage) -> None:
    """In the middle of a handler call, which is repeated."""
    fleet = _main(stage).fleet
    fleet.recorder.dawdle(60)
    before = len(fleet.recorder.deliveries())
    _produce(stage, len(fleet.put) + 2 * len(KEYS))
    fleet.tick()
    wait_until(lambda: len(fleet.recorder.deliveries()) > before, PATIENCE, lambda: "no worker began")
    fleet.recorder.dawdle(0)
    fleet.recorder.kill()
    _all_in_order(stage)


def redeploy_under_load(stage: Stage) -> None:
    """Changes the functions' configuration while records come."""
    main, done = _main(stage), threading.Event()
    changed = {**main.context, "batch_size": "500", "worker_memory": "640"}

    def load() -> None:
        while not done.is_set():
            _produce(stage, len(main.fleet.put) + len(KEYS))
            done.wait(1)

    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(load)
        try:
            began = time.monotonic()
            stage.deploy(changed)
            stage.facts["redeployed in"] = f"{time.monotonic() - began:.0f} s"
        finally:
            done.set()
        loading.result()
    main.fleet.tick()
    _all_in_order(stage)


def a_stream_under_a_key(stage: Stage) -> None:
    """A customer-managed key, which the consumer only knows from a property."""
    kms, kinesis = stage.client("kms"), stage.client("kinesis")
    key = _offered(
        stage,
        lambda: kms.create_key(
            Description=f"{stage.plan.prefix}: acceptance of sublet",
            Tags=[{"TagKey": name, "TagValue": value} for name, value in stage.tags.items()],
        )["KeyMetadata"],
    )
    stage.belongings.enter(
        f"key {key['KeyId']} (AWS deletes it after {AWAY.days} days)",
        lambda: kms.schedule_key_deletion(KeyId=key["KeyId"], PendingWindowInDays=AWAY.days),
    )
    arn = stage.make_stream("encrypted", ShardCount=1)
    kinesis.start_stream_encryption(StreamARN=arn, EncryptionType="KMS", KeyId=key["Arn"])
    kinesis.get_waiter("stream_exists").wait(StreamARN=arn, WaiterConfig={"Delay": 2, "MaxAttempts": 90})
    fleet = stage.deploy_consumer("encrypted", arn, stream_key_arn=key["Arn"]).fleet
    texts = fleet.produce(KEYS[:100])
    fleet.tick()
    fleet.recorder.wait_for(texts, PATIENCE)
    stage.facts["records"] = str(len(texts))


def by_fan_out(stage: Stage) -> None:
    """A deployed consumer through a split; and what a subscription is like, by another registered consumer."""
    kinesis, arn = stage.client("kinesis"), stage.make_stream("pushed", ShardCount=1)
    fleet = stage.deploy_consumer("pushed", arn, mode="continuous", fan_out="true").fleet
    texts = fleet.produce(KEYS[:100])
    fleet.tick()
    fleet.recorder.wait_for(texts, PATIENCE)
    fleet.split()
    texts += fleet.produce(KEYS[:100])
    if wrong := out_of_order(fleet.recorder.wait_for(texts, PATIENCE)):
        raise NotAsItShouldBe(f"{len(wrong)} records came out of order, such as {wrong[0]}")
    stage.facts["records"] = f"{len(texts)}, 0 missing, 0 out of order"
    consumer = kinesis.register_stream_consumer(StreamARN=arn, ConsumerName=stage.name("observer"))["Consumer"]
    which = {"ConsumerARN": consumer["ConsumerARN"]}
    wait_until(
        lambda: kinesis.describe_stream_consumer(**which)["ConsumerDescription"]["ConsumerStatus"] == "ACTIVE",
        PATIENCE,
        lambda: "the consumer never became active",
    )
    closed, quiet, *_ = (shard["ShardId"] for shard in kinesis.list_shards(StreamARN=arn)["Shards"])
    stage.facts.update(observed(kinesis, consumer["ConsumerARN"], closed, quiet))


def records_without_a_key(stage: Stage) -> None:
    """On a stream that distributes them itself, between records that have a key."""
    arn = _offered(
        stage,
        lambda: stage.make_stream(
            "auto", StreamModeDetails={"StreamMode": "ON_DEMAND"}, RecordDistributionStrategy="AUTO"
        ),
    )
    kinesis = stage.client("kinesis")
    texts = [f"keyless/{n}" for n in range(200)]
    entries = [
        {"Data": text.encode(), **({} if n % 2 else {"PartitionKey": f"key-{n}"})} for n, text in enumerate(texts)
    ]
    reply = _offered(stage, lambda: kinesis.put_records(StreamARN=arn, Records=entries))
    if reply["FailedRecordCount"]:
        raise NotAsItShouldBe(f"{reply['FailedRecordCount']} of {len(texts)} records were refused")
    fleet = stage.deploy_consumer("auto", arn).fleet
    fleet.tick()
    handled = fleet.recorder.wait_for(texts, PATIENCE)
    keyless = {each.text for each in handled if each.partition_key is None}
    if keyless != set(texts[1::2]):
        raise NotAsItShouldBe(f"{len(keyless)} records came without a key, not {len(texts) // 2}")
    stage.facts["records"] = f"{len(texts)}, half of them without a key"


def walk_the_idle_shard(stage: Stage) -> None:
    assert stage.idle is not None
    left = stage.plan.idle.total_seconds() - (time.monotonic() - stage.idle.since)
    while left > 0:
        stage.report(f"the idle shard: {left / 60:.0f} more minutes")
        time.sleep(min(left, 60))
        left = stage.plan.idle.total_seconds() - (time.monotonic() - stage.idle.since)
    idle = timedelta(seconds=round(time.monotonic() - stage.idle.since))
    found = walk(stage.client("kinesis"), stage.idle.stream_arn, stage.idle.shard_id, stage.idle.last_number, idle)
    stage.facts["the walk"] = str(found)
    if not found.reached_tip:
        raise NotAsItShouldBe(f"the tip was not reached: {found}")


STEPS: tuple[Callable[[Stage], None], ...] = (
    put_a_record_and_leave_it,
    deploy,
    records_through_a_split_and_a_merge,
    a_worker_is_killed,
    redeploy_under_load,
    a_stream_under_a_key,
    by_fan_out,
    records_without_a_key,
    walk_the_idle_shard,
)


def _main(stage: Stage) -> Consumer:
    if stage.main is None:
        raise NotAsItShouldBe("the consumer was not deployed")
    return stage.main


def _produce(stage: Stage, up_to: int) -> None:
    """Until this many user records have been put in total: plain ones, and KPL aggregates in each third round."""
    fleet, rounds = _main(stage).fleet, cycle((False, False, True))
    while (missing := up_to - len(fleet.put)) > 0:
        is_aggregated = next(rounds) and missing >= 3
        fleet.produce(islice(KEYS, min(len(KEYS), missing // 3 if is_aggregated else missing)), is_aggregated)


def _all_in_order(stage: Stage) -> None:
    fleet = _main(stage).fleet
    deliveries = fleet.recorder.wait_for(fleet.put, PATIENCE)
    if wrong := out_of_order(deliveries):
        raise NotAsItShouldBe(f"{len(wrong)} records came out of order, such as {wrong[0]}")
    stage.facts["records"] = f"{len(fleet.put):,} put, 0 missing, 0 out of order"
    stage.facts["deliveries"] = f"{len(deliveries):,}"


def _offered(stage: Stage, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (ClientError, ParamValidationError) as problem:
        if stage.plan.is_dry:
            raise NotOffered(str(problem)) from problem
        raise
