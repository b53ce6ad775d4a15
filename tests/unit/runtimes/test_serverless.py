"""The two Lambda functions at their boundaries: the events in events/, what is refused, and what is handed on."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sublet.decisions.manager.choose_leases import ClaimReason
from sublet.decisions.manager.packing import LeaseClaim, WorkerItem
from sublet.decisions.manager.worker_item_json import item_from_json, item_to_json
from sublet.decisions.session.window import AfterWindow, LeaseReport, SessionOutcome, WindowReport
from sublet.errors import EventError, HandlerNotLoadable, SettingsError
from sublet.protocol.lease import LeaseFence
from sublet.runtimes import serverless
from sublet.settings import Settings

from tests.doubles.engine_world import CONTINUOUS, MINUTE, EngineWorld, moment

EVENTS = Path(__file__).resolve().parents[3] / "events"
NOW = moment("2026-01-31T08:00:00")
SETTINGS = Settings(application="orders", stream="events")


def event(name: str) -> Any:
    return json.loads((EVENTS / f"{name}.json").read_text())


@pytest.mark.parametrize("name", ["rule_to_manager", "prompt_to_manager"])
def test_the_schedule_and_a_prompt_start_a_tick(name: str) -> None:
    serverless.check_tick_event(event(name))


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({}, "detail-type"),
        ({"detail-type": "EC2 Instance State-change Notification"}, "detail-type"),
        (event("map_item_to_worker"), "detail-type"),
        ([], "whole event"),
        ("tick", "whole event"),
        (None, "whole event"),
    ],
)
def test_another_functions_event_is_refused_by_the_manager_in_one_sentence(wrong: object, field: str) -> None:
    with pytest.raises(EventError, match=field):
        serverless.check_tick_event(wrong)


def test_a_map_item_is_a_worker_item() -> None:
    item = item_from_json(event("map_item_to_worker"))
    assert item == WorkerItem(
        "9f86d081884c7d65",
        "orders-audit-lambda-0",
        (
            LeaseClaim("shardId-000000000000", None, 0, ClaimReason.FREE),
            LeaseClaim("shardId-000000000001", "orders-audit-lambda-0", 41, ClaimReason.EXPIRED),
        ),
        40,
        dispatched_at=datetime(2026, 1, 31, 8, 0, 0, 250_000, tzinfo=UTC),
    )
    assert item_to_json(item) == event("map_item_to_worker")


def test_an_execution_holds_worker_items_and_so_does_the_choices_item() -> None:
    for item in (*event("manager_to_execution")["items"], event("worker_to_choice")["item"]):
        assert item_to_json(item_from_json(item)) == item


def changed(path: str, value: object) -> Any:
    """The Map item with one field changed; `...` takes it away."""
    item: Any = event("map_item_to_worker")
    *parents, name = [int(step) if step.isdigit() else step for step in path.split(".")]
    within = item
    for step in parents:
        within = within[step]
    if value is ...:
        del within[name]
    else:
        within[name] = value
    return item


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("item_id", ..., "item_id"),
        ("item_id", "", "item_id"),
        ("worker_id", 7, "worker_id"),
        ("windows_left", "40", "windows_left"),
        ("windows_left", True, "windows_left"),
        ("windows_left", -1, "windows_left"),
        ("claims", ..., "claims"),
        ("claims", {}, "claims"),
        ("claims.0", "shardId-000000000000", r"claims\[0\]"),
        ("claims.1.lease_key", ..., r"claims\[1\].lease_key"),
        ("claims.0.lease_owner", ..., r"claims\[0\].lease_owner"),
        ("claims.0.lease_owner", 5, r"claims\[0\].lease_owner"),
        ("claims.0.lease_counter", 1.5, r"claims\[0\].lease_counter"),
        ("claims.0.why", "because", r"claims\[0\].why"),
    ],
)
def test_a_malformed_item_is_refused_by_its_field(path: str, value: object, field: str) -> None:
    with pytest.raises(EventError, match=f"event field {field} is .* expected "):
        item_from_json(changed(path, value))


@pytest.mark.parametrize("wrong", [None, [], "item", 5, event("rule_to_manager")])
def test_event_that_is_no_worker_item_is_refused(wrong: object) -> None:
    with pytest.raises(EventError):
        item_from_json(wrong)


def test_event_error_repeats_only_the_start_of_a_foreign_event() -> None:
    with pytest.raises(EventError) as refused:
        item_from_json({**event("map_item_to_worker"), "claims": {"payload": "x" * 10_000}})
    assert len(str(refused.value)) < 300


def test_unknown_fields_of_an_item_are_ignored() -> None:
    """The state machine keeps its own counters beside ours."""
    assert item_from_json({**event("map_item_to_worker"), "crashes": 2}) == item_from_json(event("map_item_to_worker"))


def test_a_ticks_report_is_json() -> None:
    world = EngineWorld(CONTINUOUS)
    report = world.manager().tick()
    told = json.loads(json.dumps(serverless.tick_to_json(report)))
    assert told["total_shards"] == report.total_shards
    assert told["dispatched"] == [item.item_id for item in report.dispatched]


def test_a_report_has_the_shape_that_the_choice_reads() -> None:
    expected = event("worker_to_choice")
    report = WindowReport(
        AfterWindow(expected["next"]),
        item_from_json(expected["item"]),
        tuple(
            LeaseReport(**{**lease, "outcome": SessionOutcome(lease["outcome"])}, kept=LeaseFence("k", "o", 1))
            for lease in expected["leases"]
        ),
    )
    said = json.loads(json.dumps(serverless.report_to_json(report)))
    assert said["next"] == expected["next"]
    assert said["item"] == expected["item"]
    assert said["outcome"] == expected["outcome"]
    for lease, wanted in zip(said["leases"], expected["leases"], strict=True):
        assert {name: value for name, value in lease.items() if value is not None} == wanted


def test_longest_report_fits_into_a_state() -> None:
    """Step Functions ends an execution over 256 KiB in a way that no Catch sees."""
    keys = [f"shardId-{n:012}" for n in range(200)]
    claims = tuple(LeaseClaim(key, "w" * 100, 10**9, ClaimReason.EXPIRED) for key in keys)
    item = WorkerItem("9f86d081884c7d65", "w" * 100, claims, 40)
    fault = "the service said: " + 'ünicode "quotes" ' * 1_000
    leases = tuple(
        LeaseReport(
            key,
            SessionOutcome.SERVICE_FAILED,
            None,
            f"{10**56}:{10**6}",
            10**7,
            10**9,
            10**12,
            10**9,
            10**6,
            10**6,
            3,
            fault,
        )
        for key in keys
    )
    said = json.dumps(serverless.report_to_json(WindowReport(AfterWindow.PROMPT, item, leases)))
    assert len(said) < 256 * 1024
    assert "the service said: " in said


def test_a_real_windows_report_goes_through_json_and_back_into_the_next_window() -> None:
    world = EngineWorld(CONTINUOUS, shards=2)
    world.put("a")
    said = json.loads(json.dumps(serverless.report_to_json(world.window())))
    assert said["next"] == "again"
    world.put("b")
    world.window(item_from_json(said["item"]))
    assert world.handler.data() == [b"a", b"b"]


@pytest.mark.parametrize(
    ("remaining", "expected"),
    [(15 * MINUTE, 14 * MINUTE), (10 * MINUTE, 9.5 * MINUTE), (14.5 * MINUTE, 14 * MINUTE)],
)
def test_polling_stops_after_window_and_always_a_margin_before_lambda_would_kill_us(
    remaining: timedelta, expected: timedelta
) -> None:
    assert serverless.window_deadline(NOW, remaining, SETTINGS) - NOW == expected


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A Lambda's, as the stack sets it; nothing answers at the endpoint."""
    for name, value in {
        **replace(SETTINGS, handler="tests.doubles.some_handler:handle").to_environment(),
        "AWS_REGION": "eu-central-1",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        serverless.STATE_MACHINE_VARIABLE: "arn:aws:states:eu-central-1:123456789012:stateMachine:orders",
    }.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


class Context:
    aws_request_id = "request-1"

    def get_remaining_time_in_millis(self) -> int:
        return 900_000


def test_the_smoke_test_answers_when_the_handler_could_be_imported(environment: pytest.MonkeyPatch) -> None:
    worker = serverless.lease_worker()
    assert worker({"smoke_test": True}, Context()) == {"handler": "tests.doubles.some_handler:handle"}


def test_worker_stops_before_it_touches_a_lease_when_the_handler_fails_to_import(
    environment: pytest.MonkeyPatch,
) -> None:
    environment.setenv("SUBLET_HANDLER", "misspelt.orders:handle")
    with pytest.raises(HandlerNotLoadable, match="there is no module misspelt"):
        serverless.lease_worker()


def test_a_wrong_setting_stops_both_functions_with_its_name(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("SUBLET_FAILOVER_TIME", "soon")
    for function in (serverless.lease_worker, serverless.lease_manager):
        with pytest.raises(SettingsError, match="failover_time"):
            function()


def test_a_malformed_event_reaches_neither_table_nor_stream(environment: pytest.MonkeyPatch) -> None:
    """One clear error, and no wait for services that are not there."""
    with pytest.raises(EventError, match="claims"):
        serverless.lease_worker()({}, Context())
    with pytest.raises(EventError, match="detail-type"):
        serverless.lease_manager()({}, Context())
