"""The deployment check's answer to CloudFormation."""

from __future__ import annotations

import json

import pytest

from functions.deployment_check.app import REASON_MAX, answer


def request(kind: str) -> dict[str, object]:
    return {
        "RequestType": kind,
        "StackId": "arn:aws:cloudformation:eu-central-1:123456789012:stack/orders/1",
        "RequestId": "1",
        "LogicalResourceId": "HandlerCanBeImported",
        "ResourceProperties": {"Worker": "orders-LeaseWorker"},
    }


@pytest.mark.parametrize("kind", ["Create", "Update"])
def test_a_worker_that_has_its_handler_lets_the_deployment_go_on(kind: str) -> None:
    asked: list[tuple[str, bytes]] = []

    def invoke(worker: str, payload: bytes) -> tuple[str | None, bytes]:
        asked.append((worker, payload))
        return None, b'{"handler": "orders:handle"}'

    said = answer(request(kind), invoke)
    assert said["Status"] == "SUCCESS"
    assert said["PhysicalResourceId"] == "handler-of-HandlerCanBeImported"
    assert [(worker, json.loads(payload)) for worker, payload in asked] == [
        ("orders-LeaseWorker", {"smoke_test": True})
    ]


def test_a_worker_that_raises_fails_the_deployment_with_its_reason() -> None:
    error = {"errorType": "HandlerNotLoadable", "errorMessage": "orders:handle: No module named 'pandas'"}
    said = answer(request("Create"), lambda *_: ("Unhandled", json.dumps(error).encode()))
    assert said["Status"] == "FAILED"
    assert "orders:handle: No module named 'pandas'" in said["Reason"]


def test_a_worker_that_cannot_be_invoked_fails_the_deployment_rather_than_hanging_it() -> None:
    def invoke(*_: object) -> tuple[str | None, bytes]:
        raise TimeoutError("x" * 10_000)

    said = answer(request("Update"), invoke)
    assert said["Status"] == "FAILED"
    assert len(said["Reason"]) == REASON_MAX


def test_deleting_asks_nobody_so_that_a_broken_stack_can_be_removed() -> None:
    def invoke(*_: object) -> tuple[str | None, bytes]:
        raise AssertionError("asked")

    assert answer(request("Delete"), invoke)["Status"] == "SUCCESS"
