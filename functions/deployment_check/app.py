"""A CloudFormation custom resource that asks the lease worker whether its handler can be imported, and then prompts the
lease manager for the deployment's first tick.

A handler that cannot be imported fails the deployment, with the reason in the stack's events, instead of failing every window
afterwards. Each deployment that changes the worker creates a check of its own, so only a creation asks: an update and a deletion
belong to a rollback or a clean-up, which must not fail because of the worker.

CloudFormation waits for the PUT at the end: it is sent whatever happens.
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
"""What the names of CloudFormation's buckets for answers begin with, in every region."""

REASON_MAX = 1_000
"""Characters; CloudFormation refuses a response of more than 4 KB."""

PROMPT = {"prompt": {"because": "a lease worker has been deployed"}}

LOOKED_BACK = timedelta(days=14)
"""Whoever has had no figures for so long is deployed for the first time."""
LOOK_AGAIN = 5.0
"""Seconds."""
KEPT_FOR_THE_ANSWER = 60.0
"""Seconds of this function's time."""

Figure = Mapping[str, Any]
"""A metric as CloudWatch knows it: Namespace, MetricName, Dimensions."""


class World(NamedTuple):
    """What is asked of AWS. A test has its own.

    invoke       (function's name, payload) -> (FunctionError or None, reply)
    prompt       (function's name): invoked without waiting for its reply
    has_figures  whether CloudWatch has had a figure of each of these metrics since then
    """

    invoke: Callable[[str, bytes], tuple[str | None, bytes]]
    prompt: Callable[[str], None]
    has_figures: Callable[[Sequence[Figure], datetime], bool]
    now: Callable[[], datetime]
    sleep: Callable[[float], None]
    seconds_left: Callable[[], float]


class Context(Protocol):
    """What is used of Lambda's."""

    def get_remaining_time_in_millis(self) -> int: ...


def answer(event: Mapping[str, Any], world: World) -> dict[str, str]:
    """The response to one request."""
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
    """What keeps the lease worker from importing its handler. If nothing does, a first deployment gets its first tick."""
    problem = handler_problem(properties["Worker"], world)
    if problem is None:
        try:
            begin(properties, world)
        except Exception as failure:  # noqa: BLE001 -- the schedule's tick comes in any case: no reason to fail a deployment
            print(f"the first tick was not prompted, or its figures were not seen: {failure}")  # noqa: T201 -- into the log
    return problem


def begin(properties: Mapping[str, Any], world: World) -> None:
    """Prompt the first tick, and wait for its figures: the alarms that ring when these are missing are created after this check.

    An application that has ticked before gets no prompt, since an operator may have disabled its schedule.
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
    """What keeps the lease worker from importing its handler; None if nothing does."""
    try:
        error, reply = world.invoke(worker, json.dumps({"smoke_test": True}).encode())
        said = json.loads(reply or b"null")
    except Exception as failure:  # noqa: BLE001 -- whatever it is, CloudFormation must be told, or it waits until its timeout
        return f"The lease worker {worker} could not be invoked: {failure}"
    if error is None:
        return None
    message = said.get("errorMessage", said) if isinstance(said, dict) else said
    return f"The lease worker cannot use its handler: {message}"


def lambda_handler(event: Mapping[str, Any], context: Context) -> None:
    url = event["ResponseURL"]
    if not is_cloudformations(url, os.environ):
        raise ValueError("ResponseURL is not CloudFormation's: nothing was asked, and nothing is sent")
    body = json.dumps(answer(event, aws(context))).encode()
    # Presigned; an empty content type is part of its signature.
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
        lambda: datetime.now(UTC),  # noqa: TID251 -- this file is deployed by itself
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
    # CloudWatch counts a figure to the beginning of its period.
    reply = boto3.client("cloudwatch").get_metric_data(
        MetricDataQueries=queries, StartTime=since - period, EndTime=now + timedelta(minutes=1)
    )
    return all(result["Values"] for result in reply["MetricDataResults"])


def is_cloudformations(url: str, environment: Mapping[str, str]) -> bool:
    """Whether an answer sent there reaches CloudFormation: its own buckets in S3, or the emulator that this runs in."""
    given, emulator = urlsplit(url), urlsplit(environment.get("AWS_ENDPOINT_URL", ""))
    if emulator.netloc:
        return given.scheme == emulator.scheme and given.netloc.endswith(emulator.netloc)
    host = given.hostname or ""
    ours = host.startswith(BUCKETS) and host.endswith(f".{environment['URL_SUFFIX']}")
    return given.scheme == "https" and given.port in (None, 443) and ours
