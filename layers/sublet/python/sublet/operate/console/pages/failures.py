"""The page Failures: shards whose handlers fail or whose owners crash, and what was set aside."""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from sublet.errors import ControlRefused, SubletError
from sublet.operate.console.console_parts import Console, opened
from sublet.operate.console.forms import Form
from sublet.operate.console.people import named_as
from sublet.operate.console.redriving import prepare_redrive, redrive_command
from sublet.operate.console.rendering import LIVE_HEADER, page
from sublet.operate.console.watching import ApplicationView
from sublet.operate.redrive_text import rate_of
from sublet.operate.rules.set_aside_waiting import SetAsideWaiting

LISTED = 200


def show(console: Console, request: Request) -> Response:
    """Counts what was set aside when the page is opened, but not at each refresh."""
    application = opened(console, request.path_params["application"])
    seen = console.watching.seen(application.name) or ApplicationView()
    shards = () if seen.status is None else seen.status.shards
    failing = sorted(
        (shard for shard in shards if shard.attempts or shard.crashes or shard.lost is not None),
        key=lambda shard: (shard.lost is None, -shard.attempts, -shard.crashes),
    )
    named = application.name if len(application.streams) != 1 else f"{application.name}={application.streams[0]}"
    waiting: SetAsideWaiting | None = None
    problem = ""
    if LIVE_HEADER not in request.headers:
        try:
            waiting = application.aside.waiting()
        except SubletError as unknown:
            problem = str(unknown)
    return page(
        request,
        "failures.html",
        application=application,
        seen=seen,
        failing=failing[:LISTED],
        count=len(failing),
        waiting=waiting,
        problem=problem,
        now=console.clock.now(),
        command=redrive_command(application),
        start=f"sublet console {named} --handler MODULE:FUNCTION --allow-changes",
        tab="failures",
    )


def plan_a_redrive(console: Console, request: Request, form: Form) -> Response:
    application = opened(console, request.path_params["application"])
    try:
        limit = form.get("max_rate", "")
        max_rate = rate_of(limit) if limit else None
    except ValueError as refused:
        raise ControlRefused(str(refused)) from None
    plan = console.plans.begin(
        application.name,
        named_as(console, request),
        "failures",
        f"Redrive {application.aside.name}",
        redrive_command(application, max_rate),
        lambda: prepare_redrive(application, max_rate, console.log),
    )
    return RedirectResponse(f"/a/{application.name}/plans/{plan.number}", HTTPStatus.SEE_OTHER)
