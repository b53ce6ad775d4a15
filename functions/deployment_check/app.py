"""A CloudFormation custom resource that asks the lease worker whether its handler can be imported.

A handler that cannot be imported fails the deployment, with the reason in the stack's events, instead of
failing every window afterwards. CloudFormation waits for the PUT at the end: it is sent whatever happens.
"""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config

BUCKETS = "cloudformation-custom-resource-response-"
"""What the names of CloudFormation's buckets for answers begin with, in every region."""

REASON_MAX = 1_000
"""Characters; CloudFormation refuses a response of more than 4 KB."""

Invoke = Callable[[str, bytes], tuple[str | None, bytes]]
"""(function's name, payload) -> (FunctionError or None, reply)."""


def answer(event: Mapping[str, Any], invoke: Invoke) -> dict[str, str]:
    """The response to one request. Deleting checks nothing, so that a broken stack can be removed."""
    worker, deleting = event["ResourceProperties"]["Worker"], event["RequestType"] == "Delete"
    problem = None if deleting else handler_problem(worker, invoke)
    return {
        "Status": "FAILED" if problem else "SUCCESS",
        "Reason": (problem or "The lease worker has imported its handler")[:REASON_MAX],
        "PhysicalResourceId": f"handler-of-{event['LogicalResourceId']}",
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
    }


def handler_problem(worker: str, invoke: Invoke) -> str | None:
    """What keeps the lease worker from importing its handler; None if nothing does."""
    try:
        error, reply = invoke(worker, json.dumps({"smoke_test": True}).encode())
        said = json.loads(reply or b"null")
    except Exception as failure:  # noqa: BLE001 -- whatever it is, CloudFormation must be told, or it waits until its timeout
        return f"The lease worker {worker} could not be invoked: {failure}"
    if error is None:
        return None
    message = said.get("errorMessage", said) if isinstance(said, dict) else said
    return f"The lease worker cannot use its handler: {message}"


def invoke_lambda(worker: str, payload: bytes) -> tuple[str | None, bytes]:
    client = boto3.client("lambda", config=Config(read_timeout=60, retries={"mode": "standard"}))
    reply = client.invoke(FunctionName=worker, Payload=payload)
    return reply.get("FunctionError"), reply["Payload"].read()


def lambda_handler(event: Mapping[str, Any], _context: object) -> None:
    url = event["ResponseURL"]
    if not is_cloudformations(url, os.environ):
        raise ValueError("ResponseURL is not CloudFormation's: nothing was asked, and nothing is sent")
    body = json.dumps(answer(event, invoke_lambda)).encode()
    # Presigned; an empty content type is part of its signature.
    request = urllib.request.Request(url, data=body, method="PUT", headers={"Content-Type": ""})  # noqa: S310
    urllib.request.urlopen(request, timeout=30).close()  # noqa: S310


def is_cloudformations(url: str, environment: Mapping[str, str]) -> bool:
    """Whether an answer sent there reaches CloudFormation: its own buckets in S3, or the emulator that this runs in."""
    given, emulator = urlsplit(url), urlsplit(environment.get("AWS_ENDPOINT_URL", ""))
    if emulator.netloc:
        return given.scheme == emulator.scheme and given.netloc.endswith(emulator.netloc)
    host = given.hostname or ""
    ours = host.startswith(BUCKETS) and host.endswith(f".{environment['URL_SUFFIX']}")
    return given.scheme == "https" and given.port in (None, 443) and ours
