"""The Dispatcher port's promises, in memory and on the emulator; and how it keeps Step Functions' limits."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from sublet.aws.clients import stepfunctions_client
from sublet.aws.stepfunctions import INPUT_BYTES_MAX, StepFunctionsDispatcher
from sublet.decisions.manager.choose_leases import ClaimReason
from sublet.decisions.manager.packing import LeaseClaim, WorkerItem
from sublet.decisions.manager.worker_item_json import item_from_json
from sublet.ports import Dispatcher
from sublet.testing.memory import MemoryDispatcher

from infra.local import EmbeddedAws
from tests.contract.scripted_service import ScriptedService, error

STARTED = {"executionArn": "arn:aws:states:us-east-1:000000000000:execution:m:n", "startDate": 1_700_000_000}


def items(count: int, claims: int = 2, key: str = "shardId-{:012}") -> list[WorkerItem]:
    return [
        WorkerItem(
            f"{uuid.UUID(int=n).hex}",
            "app-lambda-0",
            tuple(LeaseClaim(key.format(n * claims + c), None, c, ClaimReason.FREE) for c in range(claims)),
            40,
        )
        for n in range(count)
    ]


@dataclass(frozen=True)
class Bench:
    dispatcher: Dispatcher
    started: Callable[[], list[WorkerItem]]


@pytest.fixture(params=["memory", pytest.param("embedded", marks=pytest.mark.emulator)])
def bench(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Bench:
    if request.param == "memory":
        memory = MemoryDispatcher()
        return Bench(memory, lambda: memory.items)
    for name, value in request.getfixturevalue("embedded_aws").environment.items():
        monkeypatch.setenv(name, value)
    client = stepfunctions_client()
    machine = client.create_state_machine(
        name=f"m-{uuid.uuid4().hex[:8]}",
        definition=json.dumps({"StartAt": "Done", "States": {"Done": {"Type": "Succeed"}}}),
        roleArn=role_of_a_machine(request.getfixturevalue("embedded_aws")),
    )["stateMachineArn"]

    def started() -> list[WorkerItem]:
        executions = client.list_executions(stateMachineArn=machine)["executions"]
        inputs = [json.loads(client.describe_execution(executionArn=e["executionArn"])["input"]) for e in executions]
        return [item_from_json(item) for execution in inputs for item in execution["items"]]

    return Bench(StepFunctionsDispatcher(client, machine), started)


def role_of_a_machine(aws: EmbeddedAws) -> str:
    trusted = {
        "Effect": "Allow",
        "Principal": {"Service": "states.amazonaws.com"},
        "Action": "sts:AssumeRole",
    }
    policy = {"Version": "2012-10-17", "Statement": [trusted]}
    role = aws.client("iam").create_role(
        RoleName=f"r-{uuid.uuid4().hex[:8]}", AssumeRolePolicyDocument=json.dumps(policy)
    )
    return str(role["Role"]["Arn"])


def by_id(item: WorkerItem) -> str:
    return item.item_id


def test_every_item_is_started_as_it_is(bench: Bench) -> None:
    wanted = items(95)
    bench.dispatcher.dispatch(wanted)
    assert sorted(bench.started(), key=by_id) == wanted


def test_dispatch_of_no_items_starts_no_execution(bench: Bench) -> None:
    bench.dispatcher.dispatch([])
    assert bench.started() == []


def test_dispatching_started_items_again_is_no_error(bench: Bench) -> None:
    bench.dispatcher.dispatch(items(3))
    bench.dispatcher.dispatch(items(3))
    assert {item.item_id for item in bench.started()} == {item.item_id for item in items(3)}


@pytest.fixture
def service(service: ScriptedService) -> ScriptedService:
    service.will("StartExecution", STARTED)
    return service


def executions_of(service: ScriptedService, wanted: list[WorkerItem]) -> list[list[WorkerItem]]:
    StepFunctionsDispatcher(stepfunctions_client(), "arn:machine").dispatch(wanted)
    asked = service.asked("StartExecution")
    assert all(len(request["input"].encode()) <= INPUT_BYTES_MAX for request in asked)
    names = [request["name"] for request in asked]
    assert len(set(names)) == len(names)
    assert all(len(name) <= 80 for name in names)
    return [[item_from_json(item) for item in json.loads(request["input"])["items"]] for request in asked]


def test_execution_gets_at_most_forty_items(service: ScriptedService) -> None:
    wanted = items(95)
    started = executions_of(service, wanted)
    assert [len(part) for part in started] == [40, 40, 15]
    assert [item for part in started for item in part] == wanted


def test_items_that_are_long_are_spread_over_more_executions(service: ScriptedService) -> None:
    wanted = items(40, claims=200)
    started = executions_of(service, wanted)
    assert len(started) > 1
    assert [item for part in started for item in part] == wanted


def test_a_call_whose_response_got_lost_is_repeated_under_the_same_name(service: ScriptedService) -> None:
    service.will("StartExecution", error("InternalError", status=500), error("ExecutionAlreadyExists"))
    StepFunctionsDispatcher(stepfunctions_client(), "arn:machine").dispatch(items(2))
    first, second = service.asked("StartExecution")
    assert first == second
