"""Runs our state machine's definition with functions given by the test, and counts the history events that AWS would
write.

It knows only what the definition may use (JSONPath: Map inline, Task lambda:invoke, Choice, Pass) and refuses the
rest, so that whatever runs here also runs on ministack and LocalStack.
"""

from __future__ import annotations

import copy
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Json = Any
Invoke = Callable[[str, Json], Json]
"""(the Parameters' FunctionName, Payload) -> the function's reply."""


class LambdaError(Exception):
    """Retry and Catch match on its name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(name)


@dataclass
class Execution:
    """One execution: its output, and the number of events in its history."""

    definition: Json
    invoke: Invoke
    events: int = 0
    output: Json = None
    visited: list[str] = field(default_factory=list)

    def run(self, given: Json) -> Execution:
        self.events += 1
        self.output = self._states(self.definition, copy.deepcopy(given))
        self.events += 1
        return self

    def _states(self, machine: Json, data: Json) -> Json:
        name = machine["StartAt"]
        while True:
            state = machine["States"][name]
            self.visited.append(name)
            self.events += 1
            data, following = _KINDS[state["Type"]](self, state, data)
            self.events += 1
            if following is None:
                return data
            name = following

    def _map(self, state: Json, data: Json) -> tuple[Json, str | None]:
        assert state["ItemProcessor"]["ProcessorConfig"] == {"Mode": "INLINE"}
        self.events += 2
        results = []
        for item in path(state["ItemsPath"], data):
            self.events += 1
            given = fill(state["ItemSelector"], data, item)
            results.append(self._states(state["ItemProcessor"], copy.deepcopy(given)))
            self.events += 1
        return results, _after(state)

    def _pass(self, state: Json, data: Json) -> tuple[Json, str | None]:
        given = path(state.get("InputPath", "$"), data)
        made = fill(state["Parameters"], given) if "Parameters" in state else given
        return place(state["ResultPath"], data, made) if "ResultPath" in state else made, _after(state)

    def _choice(self, state: Json, data: Json) -> tuple[Json, str | None]:
        return data, next((rule["Next"] for rule in state["Choices"] if holds(rule, data)), state["Default"])

    def _task(self, state: Json, data: Json) -> tuple[Json, str | None]:
        assert state["Resource"].endswith(":states:::lambda:invoke")
        parameters, retries = fill(state["Parameters"], data), 0
        while True:
            self.events += 3
            try:
                reply = self.invoke(parameters["FunctionName"], parameters["Payload"])
                selected = fill(state["ResultSelector"], {"Payload": reply}) if "ResultSelector" in state else reply
                return place(state["ResultPath"], data, copy.deepcopy(selected)), _after(state)
            except (LambdaError, KeyError) as error:
                name = error.name if isinstance(error, LambdaError) else "States.ParameterPathFailure"
                retry = next((r for r in state["Retry"] if name in r["ErrorEquals"]), {"MaxAttempts": 0})
                if retries < retry["MaxAttempts"]:
                    retries += 1
                    continue
                catcher = next(c for c in state["Catch"] if {name, "States.ALL"} & set(c["ErrorEquals"]))
                return place(catcher["ResultPath"], data, {"Error": name, "Cause": "..."}), catcher["Next"]


_KINDS: dict[str, Callable[[Execution, Json, Json], tuple[Json, str | None]]] = {
    "Map": Execution._map,
    "Pass": Execution._pass,
    "Choice": Execution._choice,
    "Task": Execution._task,
}


def _after(state: Json) -> str | None:
    return None if state.get("End") else state["Next"]


def path(text: str, data: Json) -> Json:
    """`$`, `$.a.b`, `States.MathAdd($.a, 1)`, or `States.Format('{}-{}', $.a, States.UUID())`. Raises KeyError where
    AWS raises States.ParameterPathFailure.
    """
    if sum_of := re.fullmatch(r"States\.MathAdd\((\$[\w.]*), (-?\d+)\)", text):
        return path(sum_of[1], data) + int(sum_of[2])
    if unique := re.fullmatch(r"States\.Format\('\{\}-\{\}', (\$[\w.]*), States\.UUID\(\)\)", text):
        return f"{path(unique[1], data)}-{uuid.uuid4()}"
    assert re.fullmatch(r"\$(\.\w+)*", text), f"not a path that every emulator reads: {text}"
    for name in text.split(".")[1:]:
        data = data[name]
    return data


def fill(template: Json, data: Json, map_item: Json = None) -> Json:
    """`map_item` replaces `$$.Map.Item.Value`."""
    if not isinstance(template, dict):
        return template
    return {name.removesuffix(".$"): _filled(name, value, data, map_item) for name, value in template.items()}


def _filled(name: str, value: Json, data: Json, map_item: Json) -> Json:
    if not name.endswith(".$"):
        return fill(value, data, map_item)
    return map_item if value == "$$.Map.Item.Value" else path(value, data)


def place(result_path: str, data: Json, result: Json) -> Json:
    assert re.fullmatch(r"\$(\.\w+)+", result_path)
    name, *inside = result_path[2:].split(".")
    return {**data, name: place(f"$.{'.'.join(inside)}", data[name], result) if inside else result}


def holds(rule: Json, data: Json) -> bool:
    if "And" in rule:
        return all(holds(part, data) for part in rule["And"])
    if "Or" in rule:
        return any(holds(part, data) for part in rule["Or"])
    value = path(rule["Variable"], data)
    comparisons: dict[str, Callable[[Any], bool]] = {
        "StringEquals": lambda to: bool(value == to),
        "NumericGreaterThan": lambda to: bool(value > to),
        "NumericLessThan": lambda to: bool(value < to),
        "NumericLessThanEquals": lambda to: bool(value <= to),
    }
    (name,) = rule.keys() & comparisons.keys()
    return comparisons[name](rule[name])
