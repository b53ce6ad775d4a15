"""The deployment check's answer to CloudFormation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from functions.deployment_check.app import (
    KEPT_FOR_THE_ANSWER,
    REASON_MAX,
    Figure,
    World,
    answer,
    is_cloudformations,
    lambda_handler,
)

NOW = datetime(2026, 1, 31, 8, tzinfo=UTC)
FIGURES = [{"Namespace": "sublet", "MetricName": "worker_leases", "Dimensions": []}]
FINE = (None, b'{"handler": "orders:handle"}')


def request(kind: str, **properties: object) -> dict[str, object]:
    return {
        "RequestType": kind,
        "StackId": "arn:aws:cloudformation:eu-central-1:123456789012:stack/orders/1",
        "RequestId": "1",
        "LogicalResourceId": "HandlerCanBeImported",
        "ResourceProperties": {
            "Worker": "orders-LeaseWorker",
            "Manager": "orders-LeaseManager",
            "Figures": FIGURES,
            "Awaits": "true",
            **properties,
        },
    }


@dataclass
class Deployed:
    """The check's world. `figures_after`: seconds from its beginning until CloudWatch has metrics; None for never."""

    reply: tuple[str | None, bytes] | Exception = FINE
    figures_after: float | None = 0
    ticked_before: bool = True
    asked: list[tuple[str, bytes]] = field(default_factory=list)
    prompted: list[str] = field(default_factory=list)
    seconds: float = 0

    def world(self) -> World:
        return World(
            self.invoke, self.prompted.append, self.has_figures, self.now, self.sleep, lambda: 360 - self.seconds
        )

    def invoke(self, function: str, payload: bytes) -> tuple[str | None, bytes]:
        self.asked.append((function, payload))
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.seconds)

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def has_figures(self, figures: Sequence[Figure], since: datetime) -> bool:
        assert figures == FIGURES
        if since < NOW:
            return self.ticked_before
        return self.figures_after is not None and self.seconds >= self.figures_after


def test_a_worker_that_has_its_handler_lets_the_deployment_go_on() -> None:
    deployed = Deployed()
    said = answer(request("Create"), deployed.world())
    assert said["Status"] == "SUCCESS"
    assert said["PhysicalResourceId"] == "handler-of-HandlerCanBeImported"
    assert [(worker, json.loads(payload)) for worker, payload in deployed.asked] == [
        ("orders-LeaseWorker", {"smoke_test": True})
    ]


def test_a_worker_that_raises_fails_the_deployment_with_its_reason() -> None:
    error = {"errorType": "HandlerNotLoadable", "errorMessage": "orders:handle: No module named 'pandas'"}
    deployed = Deployed(("Unhandled", json.dumps(error).encode()), ticked_before=False)
    said = answer(request("Create"), deployed.world())
    assert said["Status"] == "FAILED"
    assert "orders:handle: No module named 'pandas'" in said["Reason"]
    assert deployed.prompted == []


def test_deployment_fails_when_a_worker_cannot_be_invoked() -> None:
    said = answer(request("Create"), Deployed(TimeoutError("x" * 10_000)).world())
    assert said["Status"] == "FAILED"
    assert len(said["Reason"]) == REASON_MAX


@pytest.mark.parametrize("kind", ["Update", "Delete"])
def test_a_rollback_or_clean_up_asks_no_function(kind: str) -> None:
    """The restored worker may be broken too, by something outside the stack: that must not block a rollback."""
    deployed = Deployed(AssertionError("asked"), ticked_before=False)
    assert answer(request(kind), deployed.world())["Status"] == "SUCCESS"
    assert deployed.asked == []
    assert deployed.prompted == []


def test_a_first_deployment_brings_the_first_tick_and_waits_for_its_figures() -> None:
    deployed = Deployed(ticked_before=False, figures_after=70)
    assert answer(request("Create"), deployed.world())["Status"] == "SUCCESS"
    assert deployed.prompted == ["orders-LeaseManager"]
    assert 70 <= deployed.seconds < 80


def test_update_prompts_no_tick() -> None:
    deployed = Deployed(figures_after=None)
    answer(request("Create"), deployed.world())
    assert deployed.prompted == []
    assert deployed.seconds == 0


def test_figures_that_do_not_come_are_an_alarms_business_and_not_the_deployments() -> None:
    deployed = Deployed(ticked_before=False, figures_after=None)
    assert answer(request("Create"), deployed.world())["Status"] == "SUCCESS"
    assert 240 <= deployed.seconds <= 360 - KEPT_FOR_THE_ANSWER


def test_an_emulator_makes_no_figures_of_a_log() -> None:
    deployed = Deployed(ticked_before=False, figures_after=None)
    answer(request("Create", Awaits="false"), deployed.world())
    assert deployed.prompted == ["orders-LeaseManager"]
    assert deployed.seconds == 0


def test_cloudwatch_that_refuses_is_no_reason_to_fail_a_deployment() -> None:
    def refuse(*_: object) -> bool:
        raise PermissionError("cloudwatch:GetMetricData")

    world = Deployed(ticked_before=False).world()._replace(has_figures=refuse)
    assert answer(request("Create"), world)["Status"] == "SUCCESS"


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
def test_the_answer_goes_to_no_other_host(url: str, environment: dict[str, str]) -> None:
    assert not is_cloudformations(url, environment)


def test_an_event_of_another_sender_does_not_ask_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("URL_SUFFIX", "amazonaws.com")
    with pytest.raises(ValueError, match="ResponseURL"):
        lambda_handler({**request("Create"), "ResponseURL": "https://example.com"}, Context())


class Context:
    def get_remaining_time_in_millis(self) -> int:
        return 0
