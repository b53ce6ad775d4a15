"""The state machine as a resource: its role, its log, and the cdk-nag findings that are intended."""

from __future__ import annotations

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct
from sublet_cdk import roles
from sublet_cdk.log_groups import LogKeeping, add_log_group
from sublet_cdk.nag import acknowledge
from sublet_cdk.state_machine import Functions, definition

VENDED_LOGS = "/aws/vendedlogs/states"
"""The prefix of the log group's name. Step Functions adds each log group with another prefix to a single resource
policy of 5,120 characters per account and region; when that is full, deployments fail. (Step Functions Developer Guide,
"Logging using CloudWatch Logs".)"""

EXECUTIONS_LOG = "ExecutionsLog"
"""The id of the state machine's log group in its construct."""


def add_state_machine(
    scope: Construct,
    name: str,
    functions: Functions,
    keeping: LogKeeping,
) -> sfn.StateMachine:
    """Adds the state machine, which may invoke the two functions and deliver its log."""
    log = add_log_group(scope, EXECUTIONS_LOG, keeping, f"{VENDED_LOGS}/{name}")
    invoke = roles.allow(["lambda:InvokeFunction"], functions.worker_arn, functions.manager_arn)
    stack = Stack.of(scope)
    # As in the Developer Guide: Step Functions assumes the role to create the log's delivery before the state machine
    # exists.
    machines = stack.format_arn(
        service="states",
        resource="stateMachine",
        resource_name="*",
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )
    role = roles.role_of(scope, "ExecutionsRole", "states.amazonaws.com", {"invoke": invoke}, machines)
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
    acknowledge(machine, "SF2", "One invocation per window: a trace would show nothing that the history does not")
    acknowledge(role, "IAM5[Resource::*]", "Delivering logs takes permissions that AWS does not scope to a resource")
    return machine
