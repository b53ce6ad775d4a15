"""The deployment check's answer to CloudFormation."""

from __future__ import annotations

import json

import pytest

from functions.deployment_check.app import REASON_MAX, answer, is_cloudformations, lambda_handler


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


AWS = {"URL_SUFFIX": "amazonaws.com"}
EMULATOR = {**AWS, "AWS_ENDPOINT_URL": "http://127.0.0.1:4566"}
BUCKET = "cloudformation-custom-resource-response-eucentral1"


@pytest.mark.parametrize(
    ("url", "environment"),
    [
        (f"https://{BUCKET}.s3.eu-central-1.amazonaws.com/arn%3Aaws?X-Amz-Signature=1", AWS),
        (f"https://{BUCKET}.s3.amazonaws.com/1", AWS),
        (f"https://{BUCKET}.s3.cn-north-1.amazonaws.com.cn/1", {"URL_SUFFIX": "amazonaws.com.cn"}),
        ("http://127.0.0.1:4566/_cfn/1", EMULATOR),
    ],
)
def test_an_answer_goes_to_cloudformation(url: str, environment: dict[str, str]) -> None:
    assert is_cloudformations(url, environment)


@pytest.mark.parametrize(
    ("url", "environment"),
    [
        (f"http://{BUCKET}.s3.amazonaws.com/1", AWS),
        (f"https://{BUCKET}.s3.amazonaws.com:8443/1", AWS),
        (f"https://{BUCKET}.example.com/1", AWS),
        (f"https://{BUCKET}.s3.amazonaws.com@example.com/1", AWS),
        ("https://mine.s3.amazonaws.com/1", AWS),
        ("file:///etc/passwd", AWS),
        ("http://127.0.0.1:4566/1", AWS),
        ("http://127.0.0.1:4567/1", EMULATOR),
    ],
)
def test_and_to_nobody_else(url: str, environment: dict[str, str]) -> None:
    assert not is_cloudformations(url, environment)


def test_an_event_of_somebody_elses_asks_the_worker_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("URL_SUFFIX", "amazonaws.com")
    with pytest.raises(ValueError, match="ResponseURL"):
        lambda_handler({**request("Create"), "ResponseURL": "https://example.com"}, None)
