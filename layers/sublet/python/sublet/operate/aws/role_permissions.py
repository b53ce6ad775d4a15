"""Finds the roles of an application's functions, and asks IAM's policy simulator what they may do."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from sublet.aws.faults import code_of
from sublet.operate.rules.role_needs import DeployedRoles, PermissionNeed, sends_metrics

WINDOW, PROMPT = "RunWindow", "PromptLeaseManager"
"""The states in which the construct's state machine calls the lease worker and the lease manager."""
ALLOWED = "allowed"


def functions_of(stepfunctions: Any, state_machine: str) -> Mapping[str, str] | None:
    """The functions that the states call, by the states' names; None if there is no such state machine."""
    try:
        definition = stepfunctions.describe_state_machine(stateMachineArn=state_machine)["definition"]
    except ClientError as error:
        if code_of(error) != "StateMachineDoesNotExist":
            raise
        return None
    return dict(_calls(json.loads(definition)))


def _calls(part: object) -> Iterator[tuple[str, str]]:
    """The calls of all states, also of those inside a Map."""
    if not isinstance(part, dict):
        return
    for name, state in part.get("States", {}).items():
        called = state.get("Parameters", {}).get("FunctionName")
        if called is not None:
            yield name, called
        for inside in ("ItemProcessor", "Iterator"):
            yield from _calls(state.get(inside))


def roles_of(client: Any, functions: Mapping[str, str], state_machine: str) -> DeployedRoles:
    manager, worker = (client.get_function_configuration(FunctionName=functions[state]) for state in (PROMPT, WINDOW))
    variables = worker.get("Environment", {}).get("Variables", {})  # missing if their key may not be used
    return DeployedRoles(state_machine, manager["Role"], worker["Role"], sends_metrics(variables))


def lacking(iam: Any, role: str, needs: Sequence[PermissionNeed]) -> Sequence[str]:
    """The needs that the role lacks. Makes a call for each resource, since IAM tries each action on each resource of a
    call.
    """
    return [
        f"{each['EvalActionName']} on {need.resource}"
        for need in needs
        for page in iam.get_paginator("simulate_principal_policy").paginate(
            PolicySourceArn=role,
            ActionNames=list(need.actions),
            ResourceArns=[need.resource],
            **_context(need),
        )
        for each in page["EvaluationResults"]
        if each["EvalDecision"] != ALLOWED and not each.get("MissingContextValues")
    ]


def _context(need: PermissionNeed) -> Mapping[str, Any]:
    """The values of the request that a policy's conditions may check, as far as the need states them."""
    if need.leading_key is None:
        return {}
    entry = {
        "ContextKeyName": "dynamodb:LeadingKeys",
        "ContextKeyValues": [need.leading_key],
        "ContextKeyType": "stringList",
    }
    return {"ContextEntries": [entry]}
