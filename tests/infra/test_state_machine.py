"""The state machine does the right thing with an item after each kind of window, and its history stays bounded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sublet.decisions.manager.packing import MAP_ITEMS_MAX
from sublet.decisions.session.window import CRASHES_MAX, RUNS_MAX
from sublet.errors import SettingsError
from sublet.settings import Settings
from sublet_cdk.state_machine import (
    EXPRESS_SECONDS_MAX,
    HISTORY_EVENTS_MAX,
    LAMBDA_FAULTS,
    Functions,
    definition,
    history_events_max,
)

from tests.infra.asl import Execution, Json, LambdaError

EVENTS = Path(__file__).resolve().parents[2] / "events"
WORKER, MANAGER = "worker-arn", "manager-arn"
DEFINITION = definition(Functions(WORKER, MANAGER, 900))
EXPRESS = definition(Functions(WORKER, MANAGER, 900), express=True)
STATES: dict[str, Any] = DEFINITION["States"]["EachItem"]["ItemProcessor"]["States"]


def event(name: str) -> Json:
    return json.loads((EVENTS / name).read_text())


class Fleet:
    """Plays both functions: the worker's behaviour comes from `script`, one entry for each invocation of an item."""

    def __init__(self, *script: str, forever: str = "done") -> None:
        self.script, self.forever = script, forever
        self.windows: list[Json] = []
        self.prompts: list[Json] = []
        self.left: dict[str, Iterator[str]] = {}

    def __call__(self, function: str, payload: Json) -> Json:
        if function == MANAGER:
            self.prompts.append(payload)
            return {}
        self.windows.append(payload)
        step = next(self.left.setdefault(payload["item_id"], iter(self.script)), self.forever)
        if step in ("again", "prompt", "done", "nonsense"):
            following = {**payload, "windows_left": payload["windows_left"] - 1}
            outcome = "done" if step == "done" else "prompted"
            return {"next": step, "item": following, "outcome": outcome, "leases": []}
        if step == "unreadable":
            return {"leases": []}
        raise LambdaError(step)

    def run(self, given: Json, asl: Json = DEFINITION) -> Execution:
        return Execution(asl, self).run(given)


def one_item(windows_left: int = 40) -> Json:
    return {"items": [{**event("map_item_to_worker.json"), "windows_left": windows_left}]}


def test_each_item_of_a_manager_s_execution_reaches_a_worker_as_it_is() -> None:
    fleet, given = Fleet(), event("manager_to_execution.json")
    output = fleet.run(given).output
    assert fleet.windows == given["items"]
    assert fleet.windows[0] == event("map_item_to_worker.json")
    assert [(result["item_id"], result["outcome"]) for result in output] == [
        (item["item_id"], "done") for item in given["items"]
    ]


def test_a_window_that_is_done_costs_three_states() -> None:
    """AWS bills each state entered; the prices in decisions/prices depend on it."""
    assert Fleet().run(one_item()).visited == ["EachItem", "RunWindow", "AfterWindow", "Done"]


def test_state_machine_runs_the_next_window_with_the_returned_item() -> None:
    report, given = event("worker_to_choice.json"), event("map_item_to_worker.json")
    seen: list[Json] = []

    def invoke(function: str, payload: Json) -> Json:
        assert function == WORKER
        seen.append(payload)
        return report if len(seen) == 1 else {**report, "next": "done"}

    Execution(DEFINITION, invoke).run({"items": [given]})
    assert seen == [given, report["item"]]


def test_state_machine_prompts_a_tick_when_the_item_has_no_windows_left() -> None:
    fleet = Fleet(forever="again")
    output = fleet.run(one_item(windows_left=5)).output
    assert [window["windows_left"] for window in fleet.windows] == [5, 4, 3, 2, 1]
    assert output[0]["outcome"] == "prompted", "a tick goes on with what is left"


def test_prompt_asks_the_lease_manager_for_a_tick_and_ends_the_item() -> None:
    fleet = Fleet("again", "prompt")
    assert fleet.run(one_item()).output[0]["outcome"] == "prompted"
    assert fleet.prompts == [event("prompt_to_manager.json")]
    assert STATES["PromptLeaseManager"]["Parameters"]["InvocationType"] == "Event"


def test_a_prompt_that_fails_is_passed_over() -> None:
    def invoke(function: str, payload: Json) -> Json:
        if function == MANAGER:
            raise LambdaError("Lambda.Unknown")
        return {"next": "prompt", "item": payload, "outcome": "prompted"}

    assert Execution(DEFINITION, invoke).run(one_item()).output[0]["outcome"] == "prompted"


def test_a_crash_runs_the_same_item_again_at_once_and_three_times_at_most() -> None:
    fleet = Fleet(forever="Lambda.Unknown")
    output = fleet.run(one_item()).output
    assert fleet.windows == one_item()["items"] * (1 + CRASHES_MAX)
    assert (output[0]["outcome"], output[0]["crash"]) == ("gave_up", "Lambda.Unknown")


def test_a_window_that_comes_through_ends_a_row_of_crashes() -> None:
    row = ["Sandbox.Timedout"] * CRASHES_MAX
    fleet = Fleet(*row, "again", *row, "done")
    assert fleet.run(one_item()).output[0]["outcome"] == "done"
    assert [window["windows_left"] for window in fleet.windows] == [40] * 4 + [39] * 4


@pytest.mark.parametrize("following", ["done", "prompt"])
def test_execution_tells_of_a_failed_handler_and_runs_it_once(following: str) -> None:
    seen: list[str] = []

    def invoke(function: str, payload: Json) -> Json:
        seen.append(function)
        return {"next": following, "item": payload, "outcome": "handler_failed"} if function == WORKER else {}

    (result,) = Execution(DEFINITION, invoke).run(one_item()).output
    assert (result["outcome"], result["crash"]) == ("handler_failed", "none")
    assert seen.count(WORKER) == 1


def test_an_item_that_gives_up_stops_no_other() -> None:
    given = event("manager_to_execution.json")
    doomed = given["items"][0]["item_id"]

    def invoke(_function: str, payload: Json) -> Json:
        if payload["item_id"] == doomed:
            raise LambdaError("Lambda.Unknown")
        return {"next": "done", "item": payload, "outcome": "done"}

    outcomes = [result["outcome"] for result in Execution(DEFINITION, invoke).run(given).output]
    assert outcomes == ["gave_up", "done"]


@pytest.mark.parametrize("fault", LAMBDA_FAULTS)
def test_lambda_s_own_faults_are_retried_without_counting_as_a_crash(fault: str) -> None:
    fleet = Fleet(fault, "done")
    execution = fleet.run(one_item())
    assert execution.output[0]["outcome"] == "done"
    assert "CountCrash" not in execution.visited


def test_a_report_that_cannot_be_read_counts_as_a_crash() -> None:
    assert Fleet("unreadable", "done").run(one_item()).output[0]["outcome"] == "done"
    assert Fleet(forever="unreadable").run(one_item()).output[0]["outcome"] == "gave_up"


def test_an_unknown_outcome_leaves_the_item_to_the_next_tick() -> None:
    assert Fleet("nonsense").run(one_item()).output[0]["outcome"] == "gave_up"


def test_crashes_use_up_runs_too() -> None:
    fleet = Fleet(*["Lambda.Unknown", "again"] * 200)
    fleet.run(one_item(windows_left=1_000))
    assert len(fleet.windows) == RUNS_MAX


def test_a_crashed_item_keeps_its_id_within_one_express_execution() -> None:
    fleet = Fleet("Lambda.Unknown", "done")
    output = fleet.run(one_item(), EXPRESS).output
    first, second = (window["item_id"] for window in fleet.windows)
    assert first == second == output[0]["item_id"]


def test_two_runs_of_an_express_execution_send_two_workers() -> None:
    """Step Functions may run an Express execution twice. With one id, the second run would take the first one's leases
    for those of its crashed predecessor."""
    fleet, given = Fleet(), one_item()
    for _ in range(2):
        fleet.run(given, EXPRESS)
    first, second = (window["item_id"] for window in fleet.windows)
    assert first != second
    id_of_both = given["items"][0]["item_id"]
    assert first.startswith(f"{id_of_both}-")
    assert second.startswith(f"{id_of_both}-")
    assert [{**window, "item_id": id_of_both} for window in fleet.windows] == given["items"] * 2


def test_an_express_execution_ends_when_step_functions_would_end_it() -> None:
    assert EXPRESS["TimeoutSeconds"] == EXPRESS_SECONDS_MAX
    assert "TimeoutSeconds" not in DEFINITION


WORST = {
    "every window retried once": [LAMBDA_FAULTS[0], "again"] * RUNS_MAX,
    "crashes, each with its retry, in rows of three": (
        [LAMBDA_FAULTS[0]] * 2 * CRASHES_MAX + [LAMBDA_FAULTS[0], "again"]
    )
    * RUNS_MAX,
}


@pytest.mark.parametrize("story", WORST)
def test_the_history_of_the_dearest_execution_stays_below_the_limit(story: str) -> None:
    items = [
        {"item_id": str(n), "worker_id": "w", "claims": [], "windows_left": RUNS_MAX} for n in range(MAP_ITEMS_MAX)
    ]
    execution = Fleet(*WORST[story]).run({"items": items})
    assert execution.events > 0.9 * history_events_max(), "the worst case is one that can happen"
    assert execution.events <= history_events_max() < HISTORY_EVENTS_MAX


def test_settings_allow_no_more_windows_than_the_state_machine_runs() -> None:
    Settings(application="orders", stream="orders", windows_per_execution=RUNS_MAX)
    with pytest.raises(SettingsError, match="windows_per_execution"):
        Settings(application="orders", stream="orders", windows_per_execution=RUNS_MAX + 1)


def test_every_state_is_reached_and_every_task_is_retried_and_caught() -> None:
    targets = {name for state in STATES.values() for name in _targets(state)}
    assert targets == set(STATES)
    of_express = EXPRESS["States"]["EachItem"]["ItemProcessor"]
    reached = {name for state in of_express["States"].values() for name in _targets(state)}
    assert reached | {of_express["StartAt"]} == set(of_express["States"])
    tasks = [state for state in STATES.values() if state["Type"] == "Task"]
    assert len(tasks) == 2
    for task in tasks:
        assert task["Catch"][0]["ErrorEquals"] == ["States.ALL"]
        assert task["Retry"][0]["ErrorEquals"] == LAMBDA_FAULTS
        assert task["Retry"][0]["JitterStrategy"] == "FULL"


def test_the_definition_is_one_that_the_emulators_read() -> None:
    text = json.dumps(DEFINITION)
    assert "JSONata" not in text
    assert "DISTRIBUTED" not in text


def _targets(state: Json) -> Iterator[str]:
    yield from (state[key] for key in ("Next", "Default") if key in state)
    yield from (rule["Next"] for rule in [*state.get("Choices", []), *state.get("Catch", [])])
