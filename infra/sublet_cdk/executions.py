"""The state machine as a resource: its role, its log, and cdk-nag's findings that are meant."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct
from sublet_cdk import roles
from sublet_cdk.log_groups import LogKeeping, add_log_group
from sublet_cdk.nag import acknowledge
from sublet_cdk.state_machine import Functions, definition


def add_state_machine(
    scope: Construct,
    name: str,
    arn: str,
    functions: Functions,
    keeping: LogKeeping,
) -> sfn.StateMachine:
    """It may invoke the two functions, and deliver its log."""
    log = add_log_group(scope, "ExecutionsLog", keeping)
    invoke = roles.allow(["lambda:InvokeFunction"], functions.worker_arn, functions.manager_arn)
    role = roles.role_of(scope, "ExecutionsRole", "states.amazonaws.com", {"invoke": invoke}, arn)
    stack = Stack.of(scope)
    machine = sfn.StateMachine(
        scope,
        "LeaseWorkers",
        state_machine_name=name,
        definition_body=sfn.DefinitionBody.from_string(stack.to_json_string(definition(functions))),
        role=role,
        logs=sfn.LogOptions(destination=log, level=sfn.LogLevel.ERROR, include_execution_data=False),
    )
    acknowledge(
        machine,
        "SF1",
        "Every event is in the execution's own history for 90 days; only errors are worth a log's price",
    )
    acknowledge(
        machine, "SF2", "One invocation per window: a trace would show nothing that the history does not"
    )
    acknowledge(
        role, "IAM5[Resource::*]", "Delivering logs takes permissions that AWS does not scope to a resource"
    )
    return machine
