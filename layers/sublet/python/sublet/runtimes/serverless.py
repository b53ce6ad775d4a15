"""The two Lambda functions, composed once per cold start: what an entry point's app.py calls.

Each imports its own part of the engine: a millisecond a module is a part of every cold start.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from sublet.aws import clients
from sublet.aws.ports import aws_ports
from sublet.decisions.packing import WorkerItem
from sublet.decisions.process_end import Ending, nothing_works
from sublet.decisions.window import LeaseReport, WindowReport
from sublet.decisions.worker_item_json import item_from_json, item_to_json
from sublet.errors import EventError
from sublet.handlers.lambda_context import FunctionIdentity
from sublet.protocol.json_text import shortened
from sublet.runtimes.ending import SPENT, End, end_process
from sublet.settings import Settings
from sublet.system.garbage_collection import collect_seldom
from sublet.system.heap import use_one_heap

if TYPE_CHECKING:
    from sublet.engine.manager.tick import TickReport
    from sublet.engine.worker.worker import LeaseWorker

STATE_MACHINE_VARIABLE = "LEASE_WORKER_STATE_MACHINE_ARN"
SCHEDULED = "Scheduled Event"
PROBLEM_MAX = 500
"""Bytes of each lease's problem in a report, which may be of 200 leases; the log has all of it."""
ADOPT = "adopt"
"""An operator's prompt, by hand: the leases are to go on on the stream that is there now."""

Json = Mapping[str, Any]


class InvocationContext(Protocol):
    """What we use of the second argument of a Lambda handler."""

    @property
    def aws_request_id(self) -> str: ...

    def get_remaining_time_in_millis(self) -> int: ...


def lease_manager() -> Callable[[Json, object], dict[str, Any]]:
    """A handler that runs one tick for each event: the rule's schedule, or a prompt."""
    collect_seldom()
    from sublet.aws.stepfunctions import StepFunctionsDispatcher
    from sublet.engine.control_watch import ControlWatch
    from sublet.engine.manager.look import adopt_stream
    from sublet.engine.manager.tick import LeaseManager, log_start

    settings = Settings.from_environment(os.environ)
    dispatcher = StepFunctionsDispatcher(clients.stepfunctions_client(), os.environ[STATE_MACHINE_VARIABLE])
    ports = aws_ports(settings, "lease_manager")
    manager = LeaseManager(ports, dispatcher, settings, watch=ControlWatch(ports))
    log_start(manager.ports.log, settings)
    collect_seldom()

    def lambda_handler(event: Json, _context: object) -> dict[str, Any]:
        check_tick_event(event)
        if event.get("prompt") == ADOPT:
            adopt_stream(manager.ports)
        reports = manager.prompted() if "prompt" in event else (manager.tick(),)
        return {"ticks": [tick_to_json(report) for report in reports]}

    return lambda_handler


def tick_to_json(report: TickReport) -> dict[str, Any]:
    """The tick as JSON for the function's caller: numbers, and the items dispatched, without what a process hears of others."""
    told = {name: value for name, value in asdict(report).items() if name not in ("others", "left")}
    return {**told, "dispatched": [item.item_id for item in report.dispatched]}


def lease_worker() -> Callable[[Json, InvocationContext], dict[str, Any]]:
    """A handler that runs one window for each worker item. The user's handler is imported here, before any lease is touched."""
    collect_seldom()
    from sublet.engine.worker.worker import LeaseWorker
    from sublet.handlers.load import load_handler

    use_one_heap()
    settings = Settings.from_environment(os.environ)
    identity = FunctionIdentity.of_function(os.environ, settings)
    handler = load_handler(settings.handler, settings, identity)
    ports = aws_ports(settings, "lease_worker")
    worker = LeaseWorker(ports, handler, settings, replaced_at_once=True)
    collect_seldom()

    def lambda_handler(event: Json, context: InvocationContext) -> dict[str, Any]:
        if event == {"smoke_test": True}:
            return {"handler": settings.handler}
        return report_to_json(run_invocation(worker, item_from_json(event), context, settings))

    return lambda_handler


def run_invocation(
    worker: LeaseWorker,
    item: WorkerItem,
    context: InvocationContext,
    settings: Settings,
    end: End = end_process,
) -> WindowReport:
    """One window. If this environment is not fit for another, it is ended when all leases have been given back.

    To Lambda and Step Functions that is a crash: the item runs once more, elsewhere, finds that it holds nothing, and is done.
    An environment that returned would be used again, frozen and thawed with the thread that hangs in it.
    """
    began = worker.ports.clock.steady()
    remaining = timedelta(milliseconds=context.get_remaining_time_in_millis())
    leases: tuple[LeaseReport, ...] = ()
    try:
        report = worker.run_window(
            item,
            context.aws_request_id,
            window_deadline(began, remaining, settings),
            cut_off=began + remaining,
        )
        leases = report.leases
        return report
    finally:
        fails = nothing_works(leases, began, worker.health.finished_at)
        because = worker.health.ending or (Ending.NOTHING_WORKS if fails else None)
        if because is not None:
            outcomes = {lease.lease_key: lease.outcome.value for lease in leases}
            worker.ports.log.error(
                "this environment ends, so that it is not used again",
                because=because.value,
                item_id=item.item_id,
                leases=outcomes,
            )
            end(SPENT)


def check_tick_event(event: object) -> None:
    """A tick is started by the schedule or by a prompt; anything else was meant for another function."""
    if not isinstance(event, Mapping):
        raise EventError(
            "(whole event)", type(event).__name__, "a JSON object: the rule's scheduled event, or a prompt"
        )
    if "prompt" not in event and event.get("detail-type") != SCHEDULED:
        raise EventError(
            "detail-type", event.get("detail-type"), f'"{SCHEDULED}", or an event with a "prompt"'
        )


def window_deadline(now: datetime, remaining: timedelta, settings: Settings) -> datetime:
    """When polling stops: after `window`, and in any case `window_margin` before Lambda would kill us."""
    return now + min(settings.window, remaining - settings.window_margin)


def report_to_json(report: WindowReport) -> dict[str, Any]:
    """What the state machine reads: `next`, the `item` for the next window, and the `outcome` that an execution ends with;
    `leases` is for people. Step Functions fails an execution over a reply of more than 256 KB, and nothing catches that.
    """
    leases = [
        {
            **{name: value for name, value in asdict(lease).items() if name != "kept"},
            "problem": lease.problem and shortened(lease.problem, PROBLEM_MAX),
        }
        for lease in report.leases
    ]
    return {
        "next": report.next.value,
        "item": item_to_json(report.item),
        "outcome": report.outcome,
        "leases": leases,
    }
