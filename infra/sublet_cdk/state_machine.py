"""The state machine that runs lease workers, as one value in Amazon States Language.

Input: {"items": [<worker item>, ...]}. Each item goes through windows until the worker reports that it is done:

    RunWindow ─> AfterWindow ─┬─ again ──> NextWindow ─> RunWindow
      │   ▲                   ├─ prompt ─> PromptLeaseManager ─> Prompted
      ▼   │                   └─ done ───> Done
    CountCrash ─> AfterCrash ─── crashed too often ─> GaveUp

A finished window takes three states: AWS bills each state entered, which in catch_up mode is most of a fleet's cost.
Every error is caught inside the item: an uncaught one would fail the Map and stop all other items.

A crashed item runs again at once. That is safe without waiting for an expiry: the worker fences by the lease counter,
and knows by `item_id` what its crashed predecessor held. It uses only JSONPath, without JSONata or a distributed Map,
so the same definition runs on AWS, ministack and LocalStack.

An Express state machine (`definition(..., express=True)`) is billed by its duration instead of its states, which makes
catch_up mode's share of it small. Step Functions may run an asynchronous Express execution twice ("at-least-once",
Developer Guide, "Choosing workflow type"), and both would have the same items. So each run of an execution first gives
its item an id of its own: the worker of the second run then sees another worker's leases, not those of its crashed
predecessor. An Express execution ends after five minutes, whatever it waits for. A window that goes on then ends by
itself, and the next tick continues.

It is written out instead of built from aws_stepfunctions' classes. So the deployed definition is one value, which
tests execute and whose events they count. The classes would also add retries, and let the state machine invoke every
version of the functions.

Why one retry, and 50 runs: an execution fails, in mid-window, when its history reaches 25,000 events.
`history_events_max` adds up the worst case, in which every run is retried once or crashes; a second retry would
already exceed it. Nothing is lost by that: a failed retry counts as a crash, so a throttled worker is tried eight
times before the next tick takes over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sublet.decisions.manager.packing import MAP_ITEMS_MAX
from sublet.decisions.session.window import CRASHES_MAX, RUNS_MAX

RETRIES = 1
"""How often each task is retried after one of Lambda's own faults."""

HISTORY_EVENTS_MAX = 25_000
"""Step Functions' limit: a Standard execution fails when its history reaches it."""

EXPRESS_SECONDS_MAX = 300
"""An Express execution ends after this time. (Step Functions Developer Guide, "Choosing workflow type".)"""

LAMBDA_FAULTS = [
    "Lambda.ServiceException",
    "Lambda.AWSLambdaException",
    "Lambda.SdkClientException",
    "Lambda.TooManyRequestsException",
]
"""Lambda's faults, not ours: the function probably has not run. Jitter keeps 40 throttled items from coming back
together."""

Asl = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Functions:
    """What the state machine invokes. The texts may be CDK tokens."""

    worker_arn: str
    manager_arn: str
    worker_timeout_seconds: int
    partition: str = "aws"

    @property
    def invoke(self) -> str:
        """Step Functions' Lambda integration, whose ARN contains the partition."""
        return f"arn:{self.partition}:states:::lambda:invoke"


def definition(functions: Functions, *, express: bool = False) -> Asl:
    return {
        "Comment": "sublet: lease workers, one window after another; bounded, so that the history is too",
        **({"TimeoutSeconds": EXPRESS_SECONDS_MAX} if express else {}),
        "StartAt": "EachItem",
        "States": {
            "EachItem": {
                "Type": "Map",
                "ItemsPath": "$.items",
                "MaxConcurrency": MAP_ITEMS_MAX,
                "ItemSelector": {"item.$": "$$.Map.Item.Value", "runs": 1, "crashes": 0, "crash": "none"},
                "ItemProcessor": {
                    "ProcessorConfig": {"Mode": "INLINE"},
                    "StartAt": "NameRun" if express else "RunWindow",
                    "States": {**(_own_item_id() if express else {}), **_item_states(functions)},
                },
                "End": True,
            }
        },
    }


def history_events_max(items: int = MAP_ITEMS_MAX, runs: int = RUNS_MAX) -> int:
    """The most events that an execution can write: every run takes its most expensive path, and every item ends with
    a prompt."""
    execution = 2  # ExecutionStarted, ExecutionSucceeded
    map_state = 4  # MapStateEntered, MapStateStarted, MapStateSucceeded, MapStateExited
    iteration = 2  # MapIterationStarted, MapIterationSucceeded
    state = 2  # <Type>StateEntered, <Type>StateExited
    task = state + 3 * (1 + RETRIES)  # each attempt: TaskScheduled, TaskStarted, TaskSucceeded or TaskFailed
    run = task + state + state  # RunWindow; AfterWindow and NextWindow, or CountCrash and AfterCrash
    item = iteration + runs * run + task + state  # ... PromptLeaseManager, Prompted
    return execution + map_state + items * item


def _own_item_id() -> Asl:
    """Two states that make the item's id this run's own. A Pass can replace one field only by what it reads."""
    return {
        "NameRun": {
            "Type": "Pass",
            "Comment": "Step Functions may run an Express execution twice: each run is another worker",
            "Parameters": {"item_id.$": "States.Format('{}-{}', $.item.item_id, States.UUID())"},
            "ResultPath": "$.own",
            "Next": "OwnItem",
        },
        "OwnItem": {
            "Type": "Pass",
            "InputPath": "$.own.item_id",
            "ResultPath": "$.item.item_id",
            "Next": "RunWindow",
        },
    }


def _item_states(functions: Functions) -> Asl:
    return {
        "RunWindow": _run_window(functions),
        "AfterWindow": _after_window(),
        "NextWindow": {
            "Type": "Pass",
            "Comment": "A finished window resets the count of crashes.",
            "Parameters": {
                "item.$": "$.report.item",
                "runs.$": "States.MathAdd($.runs, 1)",
                "crashes": 0,
                "crash": "none",
            },
            "Next": "RunWindow",
        },
        "CountCrash": {
            "Type": "Pass",
            "Comment": "The error's name only: the cause is in the worker's log, and a state holds 256 KB",
            "Parameters": {
                "item.$": "$.item",
                "runs.$": "States.MathAdd($.runs, 1)",
                "crashes.$": "States.MathAdd($.crashes, 1)",
                "crash.$": "$.caught.Error",
            },
            "Next": "AfterCrash",
        },
        "AfterCrash": _after_crash(),
        "PromptLeaseManager": _prompt(functions),
        "Prompted": _ending({"outcome.$": "$.report.outcome"}),
        "Done": _ending({"outcome.$": "$.report.outcome"}),
        "GaveUp": _ending({"outcome": "gave_up"}) | {"Comment": "The next tick decides."},
    }


def _run_window(functions: Functions) -> Asl:
    return {
        "Type": "Task",
        "Resource": functions.invoke,
        "Parameters": {"FunctionName": functions.worker_arn, "Payload.$": "$.item"},
        "ResultSelector": {
            "next.$": "$.Payload.next",
            "item.$": "$.Payload.item",
            "outcome.$": "$.Payload.outcome",
        },
        "ResultPath": "$.report",
        # Lambda ends the worker by itself; this only limits the wait for a lost answer.
        "TimeoutSeconds": functions.worker_timeout_seconds + 60,
        "Retry": [_retry()],
        "Catch": [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.caught", "Next": "CountCrash"}],
        "Next": "AfterWindow",
    }


def _after_window() -> Asl:
    again = {"Variable": "$.report.next", "StringEquals": "again"}
    return {
        "Type": "Choice",
        "Choices": [
            {
                "And": [
                    again,
                    {"Variable": "$.report.item.windows_left", "NumericGreaterThan": 0},
                    {"Variable": "$.runs", "NumericLessThan": RUNS_MAX},
                ],
                "Next": "NextWindow",
            },
            # `again` without runs left, because crashes have used them up. A tick continues it in a new execution.
            {
                "Or": [again, {"Variable": "$.report.next", "StringEquals": "prompt"}],
                "Next": "PromptLeaseManager",
            },
            {"Variable": "$.report.next", "StringEquals": "done", "Next": "Done"},
        ],
        "Default": "GaveUp",
    }


def _after_crash() -> Asl:
    return {
        "Type": "Choice",
        "Choices": [
            {
                "And": [
                    {"Variable": "$.crashes", "NumericLessThanEquals": CRASHES_MAX},
                    {"Variable": "$.runs", "NumericLessThanEquals": RUNS_MAX},
                ],
                "Next": "RunWindow",
            }
        ],
        "Default": "GaveUp",
    }


def _prompt(functions: Functions) -> Asl:
    return {
        "Type": "Task",
        "Comment": "Asynchronous, and a failure is ignored: the schedule's next tick comes anyway.",
        "Resource": functions.invoke,
        "Parameters": {
            "FunctionName": functions.manager_arn,
            "InvocationType": "Event",
            "Payload": {
                "prompt": {
                    "because": "a lease worker has left work that a tick can start at once",
                    "item_id.$": "$.item.item_id",
                }
            },
        },
        # The next state drops it. (`null` would drop it here, but then ministack drops the input too.)
        "ResultPath": "$.reply",
        "TimeoutSeconds": 60,
        "Retry": [_retry()],
        "Catch": [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.reply", "Next": "Prompted"}],
        "Next": "Prompted",
    }


def _ending(outcome: Asl) -> Asl:
    """Little more than the outcome: forty items with all their leases would not fit into the Map's 256 KB.

    The outcome is the worker's own, such as handler_failed. An execution succeeds whatever happens to its leases,
    because a failed one would stop its other items.
    """
    return {
        "Type": "Pass",
        "Parameters": {"item_id.$": "$.item.item_id", **outcome, "crash.$": "$.crash"},
        "End": True,
    }


def _retry() -> Asl:
    return {
        "ErrorEquals": LAMBDA_FAULTS,
        "IntervalSeconds": 5,
        "MaxAttempts": RETRIES,
        "BackoffRate": 2,
        "JitterStrategy": "FULL",
    }
