"""Every AWS call in our code, found in the source: a client's methods, and those behind paginators and waiters."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import botocore.session
from botocore import xform_name

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "layers/sublet/python/sublet"
FOLDERS = (LIBRARY / "aws", LIBRARY / "operate/aws", ROOT / "functions", ROOT / "infra/sublet_cdk")
"""Of the library, only these packages use boto3, as import-linter checks."""

SERVICES = (
    *("cloudwatch", "dynamodb", "glue", "iam", "kinesis", "lambda", "resourcegroupstaggingapi", "s3", "sns", "sqs"),
    *("stepfunctions", "sts"),
)
HAVE_WAITERS = ("dynamodb", "kinesis", "lambda", "s3")
PREFIXES = {"stepfunctions": "states", "resourcegroupstaggingapi": "tag"}
"""Of IAM's actions, if it differs from boto3's name of the service."""

ACTIONS = {
    "lambda:Invoke": {"lambda:InvokeFunction"},  # Lambda API, Invoke
    "s3:ListObjectsV2": {"s3:ListBucket"},  # S3 API, ListObjectsV2
    "s3:GetBucketLifecycleConfiguration": {"s3:GetLifecycleConfiguration"},  # S3 API, GetBucketLifecycleConfiguration
    "s3:HeadObject": {"s3:GetObject"},  # S3 API, HeadObject
    "sqs:ChangeMessageVisibilityBatch": {
        "sqs:ChangeMessageVisibility"
    },  # SQS Developer Guide, "Amazon SQS API permissions"
    "dynamodb:CreateTable": {
        "dynamodb:CreateTable",
        "dynamodb:TagResource",
    },  # its Tags: DynamoDB Developer Guide, "Tagging"
}
"""Operations that need another action than their own name's, or an additional one."""


class CallSite(NamedTuple):
    file: str
    function: str
    operation: str
    """As in `kinesis:ListShards`."""


def call_sites() -> list[CallSite]:
    found = []
    for folder in FOLDERS:
        for path in sorted(folder.rglob("*.py")):
            name = str(path.relative_to(LIBRARY if LIBRARY in path.parents else ROOT))
            found += [CallSite(name, *each) for each in _calls(ast.parse(path.read_text()), "")]
    return found


def actions_of(operation: str) -> set[str]:
    return ACTIONS.get(operation, {operation})


def _calls(node: ast.AST, function: str) -> Iterator[tuple[str, str]]:
    for child in ast.iter_child_nodes(node):
        inside = child.name if isinstance(child, ast.FunctionDef) else function
        if isinstance(child, ast.Call) and (operation := _operation(child)):
            yield inside, operation
        yield from _calls(child, inside)


def _operation(call: ast.Call) -> str | None:
    if not isinstance(call.func, ast.Attribute):
        return None
    name, client = call.func.attr, ast.unparse(call.func.value)
    if name not in ("get_paginator", "get_waiter"):
        return _of_service(_operations().get(name, ()), client)
    (named,) = call.args
    assert isinstance(named, ast.Constant), "an operation that only a run of the code would tell"
    known = _operations() if name == "get_paginator" else _waiters()
    return _of_service(known[str(named.value)], client)


def _of_service(known: Sequence[str], client: str) -> str | None:
    """If several services have a method of that name, the client's own name decides."""
    named = [each for each in known if each.partition(":")[0] in client]
    found = known if len(known) < 2 else named
    assert len(found) < 2, f"{client}: one of {known}?"
    return found[0] if found else None


@cache
def _operations() -> Mapping[str, Sequence[str]]:
    """By the name of a client's method. Of Glue only what its schema registry has: Glue has 250 operations, some with
    names that methods of our own have.
    """
    session, found = botocore.session.Session(), defaultdict(list)
    for service in SERVICES:
        for operation in session.get_service_model(service).operation_names:
            if service == "glue" and "Schema" not in operation:
                continue
            found[xform_name(operation)].append(f"{PREFIXES.get(service, service)}:{operation}")
    return found


@cache
def _waiters() -> Mapping[str, Sequence[str]]:
    session, found = botocore.session.Session(), defaultdict(list)
    for service in HAVE_WAITERS:
        model = session.get_waiter_model(service)
        for name in model.waiter_names:
            found[xform_name(name)].append(f"{service}:{model.get_waiter(name).operation}")
    return found
