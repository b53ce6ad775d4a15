"""The lease manager's function, the rule that invokes it, and the queue for events that it fails on."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct
from sublet.operate.rules.role_needs import STARTS_WORKERS
from sublet_cdk import roles
from sublet_cdk.access import Duties
from sublet_cdk.functions import FunctionShape, FunctionSize, Own, add_function, plain_asset
from sublet_cdk.shipped import shipped

CODE = shipped("functions/lease_manager")

STATE_MACHINE_VARIABLE = "LEASE_WORKER_STATE_MACHINE_ARN"
"""Not SUBLET_, because that prefix is for settings only, and Settings refuses any other variable with it."""

MEMORY = 512
"""MiB. Scanning 10,000 leases takes half a second of CPU."""

TIMEOUT = Duration.minutes(5)
"""A first tick creates a lease for every shard of the stream. It may overlap the next one: conditional writes make
that safe."""

UNDELIVERED_AFTER = Duration.hours(1)
"""A tick or prompt that is this late is pointless: later ticks have done its work."""


def add_lease_manager(
    scope: Construct,
    shape: FunctionShape,
    duties: Duties,
    state_machine_arn: str,
    dead_letters: sqs.IQueue,
    concurrency: int | None,
) -> tuple[lambda_.Function, lambda_.CfnEventInvokeConfig]:
    """The function, and the configuration that keeps events on which it failed, after two retries."""
    everything = {
        **duties,
        "start-workers": roles.allow(STARTS_WORKERS, state_machine_arn),
        "dead-letters": roles.allow(["sqs:SendMessage"], dead_letters.queue_arn),
    }
    size, own = FunctionSize(MEMORY, TIMEOUT, concurrency), Own({STATE_MACHINE_VARIABLE: state_machine_arn})
    manager = add_function(scope, "LeaseManager", shape, size, plain_asset(CODE), everything, own)
    # L1: the L2 would also grant reading the queue's attributes.
    failed = lambda_.CfnEventInvokeConfig(
        scope,
        "FailedTicks",
        function_name=manager.function_name,
        qualifier="$LATEST",
        maximum_event_age_in_seconds=int(UNDELIVERED_AFTER.to_seconds()),
        maximum_retry_attempts=2,
        destination_config=lambda_.CfnEventInvokeConfig.DestinationConfigProperty(
            on_failure=lambda_.CfnEventInvokeConfig.OnFailureProperty(destination=dead_letters.queue_arn)
        ),
    )
    return manager, failed


def add_rule(
    scope: Construct,
    application: str,
    manager: lambda_.IFunction,
    schedule: events.Schedule,
    dead_letters: sqs.IQueue,
) -> events.Rule:
    """A rule rather than EventBridge Scheduler: it is free, needs no role, and every emulator supports it."""
    tick = targets.LambdaFunction(
        manager, dead_letter_queue=dead_letters, retry_attempts=2, max_event_age=UNDELIVERED_AFTER
    )
    description = f"sublet: ticks of {application}"
    return events.Rule(scope, "Tick", description=description, schedule=schedule, targets=[tick])
