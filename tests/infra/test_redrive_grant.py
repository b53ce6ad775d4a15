"""`grant_redrive` allows exactly the calls of a redrive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Template
from sublet.aws.set_aside.failure_destinations import SqsDestination
from sublet.aws.set_aside.s3_store import S3Destination
from sublet.handlers.batch import HandlerFunctions
from sublet.operate.redrive import Redrive
from sublet.testing.memory import FakeClock, MemoryLog
from sublet_cdk.failure_destination import Destination

from tests.contract.test_failure_destination import batch
from tests.contract.test_redrive_stores import SETTINGS
from tests.doubles.s3_model import S3Model, client_of
from tests.doubles.sqs_model import SqsModel
from tests.infra.apps import an_app

BUCKET = "arn:aws:s3:::given-up"
QUEUE = "arn:aws:sqs:eu-central-1:123456789012:given-up"
OPERATIONS = {"get_paginator": "s3:ListBucket", "head_object": "s3:GetObject"}
"""Operations whose action has another name."""


@dataclass
class Asked:
    """A client that records which action is requested, on which resource."""

    model: Any
    arn: str
    asked: set[tuple[str, str]]

    def __getattr__(self, operation: str) -> Any:
        service = self.arn.split(":")[2]
        name = f"{service}:{operation.title().replace('_', '')}"
        made = getattr(self.model, operation)

        def call(*given: object, **named: Any) -> Any:
            resource = f"{self.arn}/{named['Key']}" if "Key" in named else self.arn
            self.asked.add((OPERATIONS.get(operation, name), resource))
            return made(*given, **named)

        return call


def redriven(service: str) -> set[tuple[str, str]]:
    """The calls of a redrive: for batches that are handled, that fail, and that belong to another application."""
    model: Any = S3Model() if service == "s3" else SqsModel(QUEUE, FakeClock().now)

    def store(client: Callable[[], Any]) -> Any:
        return S3Destination(client, "given-up", "aside") if service == "s3" else SqsDestination(client, QUEUE)

    for number in (1, 2, 3):
        application = "audit" if number == 3 else "orders"
        store(client_of(model)).put(replace(batch(number, 1), application=application))
    asked: set[tuple[str, str]] = set()
    redriving = store(client_of(Asked(model, BUCKET if service == "s3" else QUEUE, asked)))

    def handle(given: Any) -> None:
        if given.records[0].sequence_number == "2":
            raise ValueError("still bad")

    done = Redrive(redriving, HandlerFunctions(handle), SETTINGS, FakeClock(), MemoryLog()).run()
    assert (done.done, done.failed, done.foreign) == (1, 1, 1)
    return asked


@pytest.mark.parametrize("arn", [f"{BUCKET}/aside", QUEUE])
def test_a_redrive_asks_for_nothing_that_is_not_granted(arn: str) -> None:
    stack = Stack(an_app(), "orders")
    operator = iam.Role(stack, "Operator", assumed_by=iam.AccountRootPrincipal())
    service = arn.split(":")[2]
    Destination(service, arn).grant_redrive(operator, "orders")
    granted = allowed(Template.from_stack(stack))
    asked = redriven(service)
    refused = [each for each in asked if not any(is_allowed(*each, *rule) for rule in granted)]
    assert not refused
    assert {action for action, _ in granted} == {action for action, _ in asked}, "and no more"


def allowed(template: Template) -> list[tuple[str, str]]:
    rules = []
    for policy in template.find_resources("AWS::IAM::Policy").values():
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
            actions = statement["Action"]
            rules += [
                (action, statement["Resource"]) for action in ([actions] if isinstance(actions, str) else actions)
            ]
    return rules


def is_allowed(action: str, resource: str, granted: str, pattern: str) -> bool:
    return action == granted and fnmatchcase(resource, pattern)
