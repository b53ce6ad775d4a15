"""The state machine as a resource: its role, its log, and the cdk-nag findings that are intended."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct
from sublet.errors import SettingsError
from sublet.settings import Mode, Settings
from sublet.settings.text import duration_text
from sublet_cdk import roles
from sublet_cdk.log_groups import LogKeeping, add_log_group
from sublet_cdk.nag import acknowledge
from sublet_cdk.state_machine import Functions, definition

VENDED_LOGS = "/aws/vendedlogs/states"
"""The prefix of the log group's name. Step Functions adds each log group with another prefix to a single resource
policy of 5,120 characters per account and region; when that is full, deployments fail. (Step Functions Developer Guide,
"Logging using CloudWatch Logs".)"""

NAMES = {
    sfn.StateMachineType.STANDARD: "{application}-lease-workers",
    sfn.StateMachineType.EXPRESS: "{application}-express-workers",
}
"""The state machine's name by its type. CloudFormation replaces a state machine whose type changes, and cannot while
its name stays."""

EXPRESS_WINDOW_MAX = timedelta(minutes=4)
"""An Express execution ends after five minutes. A window this long leaves time for Lambda's start and one retry."""

EXECUTIONS_LOG = "ExecutionsLog"
"""The id of the state machine's log group in its construct."""


def with_window(kind: sfn.StateMachineType, stated: Mapping[str, object]) -> Mapping[str, object]:
    """The stated settings, and the longest window of an Express execution if none is stated."""
    return {"window": EXPRESS_WINDOW_MAX, **stated} if kind is sfn.StateMachineType.EXPRESS else stated


def check_type(kind: sfn.StateMachineType, settings: Settings) -> None:
    """Refuses an Express state machine for windows that it would not outlast. Raises SettingsError."""
    if kind is not sfn.StateMachineType.EXPRESS:
        return
    if settings.mode is not Mode.CATCH_UP:
        raise SettingsError(
            "state_machine_type",
            "EXPRESS",
            "STANDARD with mode=continuous: an Express execution ends after five minutes",
        )
    if settings.window > EXPRESS_WINDOW_MAX:
        raise SettingsError(
            "window",
            duration_text(settings.window),
            f"at most {duration_text(EXPRESS_WINDOW_MAX)} with state_machine_type=EXPRESS: an execution ends after "
            "five minutes",
        )


def add_state_machine(
    scope: Construct,
    name: str,
    functions: Functions,
    keeping: LogKeeping,
    kind: sfn.StateMachineType = sfn.StateMachineType.STANDARD,
) -> sfn.StateMachine:
    """Adds the state machine, which may invoke the two functions and deliver its log."""
    is_express = kind is sfn.StateMachineType.EXPRESS
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
        definition_body=sfn.DefinitionBody.from_string(stack.to_json_string(definition(functions, express=is_express))),
        # A deployed Standard one does not state its type: CloudFormation would replace it, which its name forbids.
        state_machine_type=kind if is_express else None,
        role=role,
        logs=sfn.LogOptions(destination=log, level=sfn.LogLevel.ERROR, include_execution_data=False),
    )
    acknowledge(
        machine,
        "SF1",
        "The worker's log tells of each window; only errors are worth a log's price"
        if is_express
        else "Every event is in the execution's own history for 90 days; only errors are worth a log's price",
    )
    acknowledge(machine, "SF2", "One invocation per window: a trace would show nothing that the history does not")
    acknowledge(role, "IAM5[Resource::*]", "Delivering logs takes permissions that AWS does not scope to a resource")
    return machine
