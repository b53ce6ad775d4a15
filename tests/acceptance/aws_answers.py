"""The steps that ask AWS what the documents say, and what sublet relies on: figures, alarms, DryRun, pages."""

from __future__ import annotations

import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError
from sublet.metric_names import NAMESPACE, Metric
from sublet.operate.aws.inspection import DRY_RUN_ANSWER
from sublet.operate.rules.stack_names import consumer_stack

from tests.acceptance.outcomes import PATIENCE, NotAsItShouldBe, main_of, only_on_aws
from tests.acceptance.stage import Stage

SETTLED = 900
"""Seconds until every alarm has a state: two or three of its periods."""


def figures_in_cloudwatch(stage: Stage) -> None:
    """The log's lines in embedded metric format become metrics, of the application and by shard."""
    main, began = main_of(stage), time.monotonic()
    application = main.context["application"]
    wanted = {
        "records": (Metric.RECORDS, "Sum"),
        "ticks": (Metric.TOTAL_LEASES, "SampleCount"),
        "lag": (Metric.MILLIS_BEHIND_LATEST, "SampleCount"),
    }
    found: dict[str, float] = {}
    while time.monotonic() - began < (1 if stage.plan.is_dry else PATIENCE):
        found = {name: _figure(stage, application, *what) for name, what in wanted.items()}
        if all(found.values()):
            break
        time.sleep(1 if stage.plan.is_dry else 10)
    stage.facts.update({name: f"{value:,.0f}" for name, value in found.items()})
    if missing := [name for name, value in found.items() if not value]:
        only_on_aws(stage, f"CloudWatch has no {', '.join(missing)} of {application} out of the functions' logs")
    if found["records"] < len(set(main.fleet.put)):
        stage.facts["note"] = f"{len(set(main.fleet.put)):,} records were put: a worker that is killed loses figures"
    stage.facts["arrived within"] = f"{time.monotonic() - began:.0f} s"


def _figure(stage: Stage, application: str, metric: Metric, statistic: str) -> float:
    now = datetime.now(UTC)
    reply = stage.client("cloudwatch").get_metric_statistics(
        Namespace=NAMESPACE,
        MetricName=metric.value,
        Dimensions=[{"Name": "application", "Value": application}],
        StartTime=now - timedelta(hours=3),
        EndTime=now + timedelta(minutes=1),
        Period=3600,
        Statistics=[statistic],
    )
    return float(sum(each[statistic] for each in reply["Datapoints"]))


def alarms_are_quiet(stage: Stage) -> None:
    """Each alarm of the consumer, once it has a state, is OK: what it watches is there, and the run is healthy."""
    stack, began = consumer_stack(main_of(stage).context["application"]), time.monotonic()
    states = _states(stage, stack)
    while not stage.plan.is_dry and "INSUFFICIENT_DATA" in states.values() and time.monotonic() - began < SETTLED:
        time.sleep(15)
        states = _states(stage, stack)
    counted = Counter(states.values())
    stage.facts["alarms"] = ", ".join(f"{count} {state}" for state, count in sorted(counted.items()))
    if not states:
        raise NotAsItShouldBe(f"the stack {stack} has no alarms")
    if ringing := [name for name, state in states.items() if state == "ALARM"]:
        raise NotAsItShouldBe(f"a healthy consumer's alarms are on: {', '.join(ringing)}")
    if counted["INSUFFICIENT_DATA"]:
        only_on_aws(
            stage, f"{counted['INSUFFICIENT_DATA']} of {len(states)} alarms have no state: nobody evaluates them"
        )


def _states(stage: Stage, stack: str) -> dict[str, str]:
    pages = stage.client("cloudwatch").get_paginator("describe_alarms").paginate(AlarmNamePrefix=f"{stack}-")
    return {each["AlarmName"]: each["StateValue"] for page in pages for each in page["MetricAlarms"]}


def a_dry_run_of_a_read(stage: Stage) -> None:
    """Kinesis answers DryRun with an error of its own, by which `sublet doctor` knows that a read is allowed."""
    kinesis, arn = stage.client("kinesis"), main_of(stage).context["stream_arn"]
    shard = kinesis.list_shards(StreamARN=arn)["Shards"][0]["ShardId"]
    which = {"StreamARN": arn, "ShardId": shard, "ShardIteratorType": "LATEST"}
    iterator = kinesis.get_shard_iterator(**which)["ShardIterator"]
    try:
        kinesis.get_records(StreamARN=arn, ShardIterator=iterator, Limit=1, DryRun=True)
    except ClientError as answer:
        code = answer.response["Error"]["Code"]
        stage.facts["GetRecords with DryRun"] = code
        if code != DRY_RUN_ANSWER:
            raise NotAsItShouldBe(f"GetRecords with DryRun answered {code}, not {DRY_RUN_ANSWER}") from answer
        return
    only_on_aws(stage, "GetRecords ignored DryRun and read the shard")


def pages_of_shards(stage: Stage) -> None:
    """ListShards in pages of one, each after the first by its token alone: every shard once, closed ones too."""
    kinesis, arn = stage.client("kinesis"), main_of(stage).context["stream_arn"]
    whole = [each["ShardId"] for each in kinesis.list_shards(StreamARN=arn)["Shards"]]
    found: list[str] = []
    asked: dict[str, Any] = {"StreamARN": arn}
    while asked and len(found) <= len(whole):
        page = kinesis.list_shards(**asked, MaxResults=1)
        found += [each["ShardId"] for each in page["Shards"]]
        asked = {"NextToken": token} if (token := page.get("NextToken")) else {}
    stage.facts["shards"] = f"{len(whole)} in {len(found)} pages"
    if found != whole:
        raise NotAsItShouldBe(f"pages of one shard gave {found}, one page {whole}")
