"""The steps on a stream that changes, and on the ways to read it. A step reports to `stage.facts`, and raises if
something is wrong.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import cycle, islice
from typing import Any

from sublet.protocol.aggregation import aggregate

from tests.acceptance.commands import sublet
from tests.acceptance.idle_walk import walk
from tests.acceptance.outcomes import PATIENCE, NotAsItShouldBe, main_of, offered, only_on_aws
from tests.acceptance.pushed import observed
from tests.acceptance.stage import HANDLERS, Idle, Stage
from tests.acceptance.things import Stream
from tests.e2e.deliveries import out_of_order, wait_until

KEYS = [f"key-{n}" for n in range(400)]
LARGE = 3 * 1024 * 1024
"""Bytes of a record that Kinesis refuses unless the stream allows it."""
LARGEST_KIB = 4 * 1024


def put_a_record_and_leave_it(stage: Stage) -> None:
    """The first step, so that the shard is idle while the others run."""
    kinesis, arn = stage.client("kinesis"), stage.make_stream("idle", ShardCount=1)
    put = kinesis.put_record(StreamARN=arn, Data=b"the last one", PartitionKey="key")
    label = Stream(stage.aws, stage.name("idle")).label
    stage.idle = Idle(arn, put["ShardId"], put["SequenceNumber"], time.monotonic(), label)


def deploy(stage: Stage) -> None:
    began = time.monotonic()
    stage.main = stage.deploy_consumer("main", stage.make_stream("main", ShardCount=2))
    stage.facts["deployed in"] = f"{time.monotonic() - began:.0f} s"


def records_through_a_split_and_a_merge(stage: Stage) -> None:
    fleet = main_of(stage).fleet
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
    fleet = main_of(stage).fleet
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
    main, done = main_of(stage), threading.Event()
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


def a_stream_and_tables_under_a_key(stage: Stage) -> None:
    """A customer-managed key, for the stream and both tables; the consumer knows the stream's only from a property."""
    kinesis, key = stage.client("kinesis"), offered(stage, stage.make_key)
    arn = stage.make_stream("encrypted", ShardCount=1)
    kinesis.start_stream_encryption(StreamARN=arn, EncryptionType="KMS", KeyId=key)
    kinesis.get_waiter("stream_exists").wait(StreamARN=arn, WaiterConfig={"Delay": 2, "MaxAttempts": 90})
    fleet = stage.deploy_consumer("encrypted", arn, stream_key_arn=key, lease_table_key_arn=key).fleet
    texts = fleet.produce(KEYS[:100])
    fleet.tick()
    fleet.recorder.wait_for(texts, PATIENCE)
    stage.facts["records"] = str(len(texts))
    dynamodb = stage.client("dynamodb")
    for table in (fleet.outputs["LeaseTable"], fleet.outputs["SightingsTable"]):
        found = dynamodb.describe_table(TableName=table)["Table"].get("SSEDescription", {}).get("KMSMasterKeyArn")
        if found != key:
            only_on_aws(stage, f"{table} is under {found}, not under the key")


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
    """On a stream that distributes them itself, between records that have a key and KPL aggregates of both kinds."""
    arn = offered(
        stage,
        lambda: stage.make_stream(
            "auto", StreamModeDetails={"StreamMode": "ON_DEMAND"}, RecordDistributionStrategy="AUTO"
        ),
    )
    kinesis = stage.client("kinesis")
    texts = [f"keyless/{n}" for n in range(200)]
    entries: list[dict[str, Any]] = [
        {"Data": text.encode(), **({} if n % 2 else {"PartitionKey": f"key-{n}"})} for n, text in enumerate(texts)
    ]
    packed = [[f"kpl-{n}/{i}" for i in range(3)] for n in range(20)]
    entries += [
        {
            "Data": aggregate([(f"kpl-{n}", None, text.encode()) for text in together]),
            **({} if n % 2 else {"PartitionKey": f"kpl-{n}"}),
        }
        for n, together in enumerate(packed)
    ]
    reply = offered(stage, lambda: kinesis.put_records(StreamARN=arn, Records=entries))
    if reply["FailedRecordCount"]:
        raise NotAsItShouldBe(f"{reply['FailedRecordCount']} of {len(entries)} records were refused")
    fleet = stage.deploy_consumer("auto", arn).fleet
    fleet.tick()
    aggregated = [text for together in packed for text in together]
    handled = fleet.recorder.wait_for([*texts, *aggregated], PATIENCE)
    keyless = {each.text for each in handled if each.partition_key is None}
    if keyless != set(texts[1::2]):
        raise NotAsItShouldBe(f"{len(keyless)} records came without a key, not {len(texts) // 2}")
    stage.facts["records"] = f"{len(texts)}, half of them without a key"
    stage.facts["KPL"] = f"{len(packed)} aggregates, half of them without a key: all {len(aggregated)} records came"


def a_record_over_1_mib(stage: Stage) -> None:
    """Between small ones of the same key, on a stream that allows it."""
    main = main_of(stage)
    fleet, which = main.fleet, {"StreamARN": main.context["stream_arn"]}
    offered(stage, lambda: fleet.kinesis.update_max_record_size(**which, MaxRecordSizeInKiB=LARGEST_KIB))
    fleet.kinesis.get_waiter("stream_exists").wait(**which, WaiterConfig={"Delay": 2, "MaxAttempts": 90})
    text = "large/" + "x" * LARGE
    before = fleet.produce(["large"])
    offered(stage, lambda: fleet.kinesis.put_record(**which, Data=text.encode(), PartitionKey="large"))
    after = fleet.produce(["large"])
    fleet.tick()
    digest = f"{hashlib.sha256(text.encode()).hexdigest()}/0"
    fleet.recorder.wait_for([*before, digest, *after], PATIENCE)
    stage.facts["the record"] = f"{len(text):,} bytes came unchanged, between two small ones"


def given_up_and_redriven(stage: Stage) -> None:
    """Into a queue, and back by `sublet redrive` with the handler repaired."""
    url, queue = stage.make_queue("aside")
    arn = stage.make_stream("aside", ShardCount=1)
    consumer = stage.deploy_consumer("aside", arn, on_failure=queue, maximum_retry_attempts="1")
    fleet = consumer.fleet
    fleet.recorder.place.write("refuse", "bad")
    bad, good = fleet.produce(["bad"]), []
    fleet.tick()
    wait_until(lambda: _messages(stage, url) > 0, PATIENCE, lambda: "nothing was set aside")
    good = fleet.produce(KEYS[:50])
    fleet.tick()
    fleet.recorder.wait_for(good, PATIENCE)
    fleet.recorder.place.remove("refuse")
    context = consumer.context
    said = sublet(
        stage,
        *("redrive", "--from", queue, "--application", context["application"], "--stream", fleet.stream),
        *("--handler", context["handler"]),
        folder=HANDLERS,
        variables=json.loads(context["handler_environment"]),
    )
    fleet.recorder.wait_for(bad, PATIENCE)
    wait_until(lambda: _messages(stage, url) == 0, PATIENCE, lambda: f"the queue has messages still: {said}")
    stage.facts["records"] = f"{len(bad)} set aside and redriven, {len(good)} after it handled meanwhile"


def _messages(stage: Stage, url: str) -> int:
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = stage.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return sum(int(found[name]) for name in names)


def walk_the_idle_shard(stage: Stage) -> None:
    if stage.idle is None:
        raise NotAsItShouldBe("there is no idle shard: the first step failed")
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


def _produce(stage: Stage, up_to: int) -> None:
    """Until this many user records have been put in total: plain ones, and KPL aggregates in each third round."""
    fleet, rounds = main_of(stage).fleet, cycle((False, False, True))
    while (missing := up_to - len(fleet.put)) > 0:
        is_aggregated = next(rounds) and missing >= 3
        fleet.produce(islice(KEYS, min(len(KEYS), missing // 3 if is_aggregated else missing)), is_aggregated)


def _all_in_order(stage: Stage) -> None:
    fleet = main_of(stage).fleet
    deliveries = fleet.recorder.wait_for(fleet.put, PATIENCE)
    if wrong := out_of_order(deliveries):
        raise NotAsItShouldBe(f"{len(wrong)} records came out of order, such as {wrong[0]}")
    stage.facts["records"] = f"{len(fleet.put):,} put, 0 missing, 0 out of order"
    stage.facts["deliveries"] = f"{len(deliveries):,}"
