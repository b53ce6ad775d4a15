"""A CloudFormation custom resource that checks that the lease worker can import its handler, and then prompts the
lease manager for the deployment's first tick.

A handler that cannot be imported fails the deployment, with the reason in the stack's events, instead of failing
every window afterwards. Each deployment that changes the worker creates a new check, so only Create requests are
checked. Updates and deletions belong to a rollback or a clean-up, which must not fail because of the worker.

CloudFormation waits for the PUT at the end, so it is always sent.
"""

from __future__ import annotations

import json
import os
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import boto3
from botocore.config import Config

BUCKETS = "cloudformation-custom-resource-response-"
"""The prefix of CloudFormation's response buckets, in every region."""

REASON_MAX = 1_000
"""In characters. CloudFormation refuses a response of more than 4 KB."""

PROMPT = {"prompt": {"because": "a lease worker has been deployed"}}

LOOKED_BACK = timedelta(days=14)
"""An application without metrics for this long is treated as deployed for the first time."""
LOOK_AGAIN = 5.0
KEPT_FOR_THE_ANSWER = 60.0
"""Seconds of this function's time that are reserved for sending the response."""

Figure = Mapping[str, Any]
"""A CloudWatch metric: Namespace, MetricName, Dimensions."""


class World(NamedTuple):
    """The calls to AWS and the clock; tests have their own.

    invoke       (function name, payload) -> (FunctionError or None, reply)
    prompt       (function name): invoke it without waiting for its reply
    has_figures  True if CloudWatch has data of all these metrics since then
    """

    invoke: Callable[[str, bytes], tuple[str | None, bytes]]
    prompt: Callable[[str], None]
    has_figures: Callable[[Sequence[Figure], datetime], bool]
    now: Callable[[], datetime]
    sleep: Callable[[float], None]
    seconds_left: Callable[[], float]


class Context(Protocol):
    """The part of Lambda's context that is used here."""

    def get_remaining_time_in_millis(self) -> int: ...


def answer(event: Mapping[str, Any], world: World) -> dict[str, str]:
    checks = event["RequestType"] == "Create"
    problem = check(event["ResourceProperties"], world) if checks else None
    return {
        "Status": "FAILED" if problem else "SUCCESS",
        "Reason": (problem or "The lease worker has imported its handler")[:REASON_MAX],
        "PhysicalResourceId": f"handler-of-{event['LogicalResourceId']}",
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
    }


def check(properties: Mapping[str, Any], world: World) -> str | None:
    """Returns why the lease worker cannot import its handler. None if it can; a first deployment then gets its first
    tick.
    """
    problem = handler_problem(properties["Worker"], world)
    if problem is None:
        try:
            begin(properties, world)
        except Exception as failure:  # noqa: BLE001 -- the schedule's tick comes anyway: no reason to fail a deployment
            print(f"the first tick was not prompted, or its metrics did not arrive: {failure}")  # noqa: T201 -- goes to the log
    return problem


def begin(properties: Mapping[str, Any], world: World) -> None:
    """Prompts the first tick and waits for its metrics: the alarms that fire without them are created after this
    check.

    An application that has ticked before is not prompted, because an operator may have disabled its schedule.
    """
    figures, began = properties["Figures"], world.now()
    if world.has_figures(figures, began - LOOKED_BACK):
        return
    world.prompt(properties["Manager"])
    while properties["Awaits"] == "true" and world.seconds_left() > KEPT_FOR_THE_ANSWER:
        if world.has_figures(figures, began):
            return
        world.sleep(LOOK_AGAIN)


def handler_problem(worker: str, world: World) -> str | None:
    """Returns why the lease worker cannot import its handler, or None if it can."""
    try:
        error, reply = world.invoke(worker, json.dumps({"smoke_test": True}).encode())
        said = json.loads(reply or b"null")
    except Exception as failure:  # noqa: BLE001 -- CloudFormation needs a response to any failure, or it waits until its timeout
        return f"The lease worker {worker} could not be invoked: {failure}"
    if error is None:
        return None
    message = said.get("errorMessage", said) if isinstance(said, dict) else said
    return f"The lease worker cannot use its handler: {message}"


def lambda_handler(event: Mapping[str, Any], context: Context) -> None:
    url = event["ResponseURL"]
    if not is_cloudformations(url, os.environ):
        raise ValueError("ResponseURL is not CloudFormation's: nothing was checked, and no response is sent")
    body = json.dumps(answer(event, aws(context))).encode()
    # The URL is presigned; an empty content type is part of its signature.
    request = urllib.request.Request(url, data=body, method="PUT", headers={"Content-Type": ""})  # noqa: S310
    urllib.request.urlopen(request, timeout=30).close()  # noqa: S310


def aws(context: Context) -> World:
    functions = boto3.client("lambda", config=Config(read_timeout=60, retries={"mode": "standard"}))

    def invoke(function: str, payload: bytes) -> tuple[str | None, bytes]:
        reply = functions.invoke(FunctionName=function, Payload=payload)
        return reply.get("FunctionError"), reply["Payload"].read()

    def prompt(function: str) -> None:
        functions.invoke(FunctionName=function, InvocationType="Event", Payload=json.dumps(PROMPT).encode())

    return World(
        invoke,
        prompt,
        has_figures,
        lambda: datetime.now(UTC),  # noqa: TID251 -- this file is deployed on its own
        time.sleep,  # noqa: TID251
        lambda: context.get_remaining_time_in_millis() / 1000,
    )


def has_figures(figures: Sequence[Figure], since: datetime) -> bool:
    now = datetime.now(UTC)  # noqa: TID251
    period = timedelta(minutes=1) if now - since < timedelta(hours=1) else timedelta(days=1)
    queries: Any = [
        {
            "Id": f"m{n}",
            "MetricStat": {"Metric": figure, "Period": int(period.total_seconds()), "Stat": "SampleCount"},
        }
        for n, figure in enumerate(figures)
    ]
    # CloudWatch counts a value at the beginning of its period.
    reply = boto3.client("cloudwatch").get_metric_data(
        MetricDataQueries=queries, StartTime=since - period, EndTime=now + timedelta(minutes=1)
    )
    return all(result["Values"] for result in reply["MetricDataResults"])


def is_cloudformations(url: str, environment: Mapping[str, str]) -> bool:
    """True if a response sent there reaches CloudFormation: one of its own S3 buckets, or the emulator that this runs
    in."""
    given, emulator = urlsplit(url), urlsplit(environment.get("AWS_ENDPOINT_URL", ""))
    if emulator.netloc:
        return given.scheme == emulator.scheme and given.netloc.endswith(emulator.netloc)
    host = given.hostname or ""
    ours = host.startswith(BUCKETS) and host.endswith(f".{environment['URL_SUFFIX']}")
    return given.scheme == "https" and given.port in (None, 443) and ours
