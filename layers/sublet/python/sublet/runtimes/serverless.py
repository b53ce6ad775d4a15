"""Composes the two Lambda functions, once per cold start. An entry point's app.py calls this.

Each function imports only its own part of the engine, because each module adds a millisecond to every cold start.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from sublet.aws import clients
from sublet.aws.ports import aws_ports
from sublet.decisions.manager.packing import WorkerItem
from sublet.decisions.manager.worker_item_json import item_from_json, item_to_json
from sublet.decisions.session.process_end import ProcessEndReason, nothing_works
from sublet.decisions.session.window import LeaseReport, WindowReport
from sublet.errors import EventError
from sublet.handlers.lambda_context import FunctionIdentity
from sublet.protocol.shortened_text import shortened
from sublet.runtimes.ending import SPENT, End, end_process
from sublet.settings import Settings
from sublet.system.heap import collect_seldom, use_one_heap

if TYPE_CHECKING:
    from sublet.engine.manager.tick import TickReport
    from sublet.engine.worker.worker import LeaseWorker

STATE_MACHINE_VARIABLE = "LEASE_WORKER_STATE_MACHINE_ARN"
SCHEDULED = "Scheduled Event"
PROBLEM_MAX = 500
"""How many bytes of each lease's problem a report has, since it may cover 200 leases. The log has all of it."""
ADOPT = "adopt"
"""A prompt that an operator sends by hand, so that the leases continue on the stream that now has the name."""

Json = Mapping[str, Any]


class InvocationContext(Protocol):
    """The part that we use of a Lambda handler's second argument."""

    @property
    def aws_request_id(self) -> str: ...

    def get_remaining_time_in_millis(self) -> int: ...


def lease_manager() -> Callable[[Json, object], dict[str, Any]]:
    """Returns a handler that runs one tick for each event, which is the rule's schedule or a prompt."""
    collect_seldom()
    from sublet.aws.stepfunctions import StepFunctionsDispatcher
    from sublet.engine.control_watch import ControlWatch
    from sublet.engine.manager.adoption import adopt_stream
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
    """The tick as JSON for the function's caller: its counts, and the dispatched items. Leaves out what concerns
    processes.
    """
    told = {name: value for name, value in asdict(report).items() if name not in ("others", "left")}
    return {**told, "dispatched": [item.item_id for item in report.dispatched]}


def lease_worker() -> Callable[[Json, InvocationContext], dict[str, Any]]:
    """Returns a handler that runs one window for each worker item. Imports the user's handler before any lease is
    touched.
    """
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
    """Run one window. If this environment is not fit for another one, end it once every lease is released.

    Lambda and Step Functions see a crash: the item runs once more, elsewhere, finds no lease to hold, and is done. If
    the function returned, Lambda would use the environment again, and freeze and thaw it with its hanging thread.
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
        because = worker.health.ending or (ProcessEndReason.NOTHING_WORKS if fails else None)
        if because is not None:
            outcomes = {lease.lease_key: lease.outcome.value for lease in leases}
            worker.ports.log.error(
                "ending this environment so that it is not reused",
                because=because.value,
                item_id=item.item_id,
                leases=outcomes,
            )
            end(SPENT)


def check_tick_event(event: object) -> None:
    """Raises SettingsError for an event that is neither the schedule nor a prompt, and so was meant for another
    function.
    """
    if not isinstance(event, Mapping):
        raise EventError(
            "(whole event)", type(event).__name__, "a JSON object: the rule's scheduled event, or a prompt"
        )
    if "prompt" not in event and event.get("detail-type") != SCHEDULED:
        raise EventError("detail-type", event.get("detail-type"), f'"{SCHEDULED}", or an event with a "prompt"')


def window_deadline(now: datetime, remaining: timedelta, settings: Settings) -> datetime:
    """When polling stops: after `window`, but at the latest `window_margin` before Lambda would kill us."""
    return now + min(settings.window, remaining - settings.window_margin)


def report_to_json(report: WindowReport) -> dict[str, Any]:
    """The reply that the state machine reads: `next`, the `item` for the next window, and the `outcome` of the
    execution; `leases` is for people. Step Functions fails an execution if a reply has more than 256 KB, and nothing
    catches that.
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
