"""The page of a planned change: what it does as a table, the command that does the same, and the button."""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from sublet.operate.console.console_parts import Console, opened
from sublet.operate.console.forms import Form
from sublet.operate.console.people import named_as, who
from sublet.operate.console.plans import ChangePlan
from sublet.operate.console.rendering import page, problem

SHOWN_ROWS = 500
"""How many rows of a plan the page shows; the command's `--json` has all."""


def show(console: Console, request: Request) -> Response:
    application = opened(console, request.path_params["application"])
    plan = console.plans.get(application.name, request.path_params["number"])
    if plan is None:
        return _gone(request)
    return _page(console, request, plan, "")


def execute(console: Console, request: Request, form: Form) -> Response:
    application = opened(console, request.path_params["application"])
    plan = console.plans.get(application.name, request.path_params["number"])
    if plan is None:
        return _gone(request)
    if plan.prepared is not None and plan.prepared.needs_name and form.get("name") != application.name:
        return _page(console, request, plan, f"Type {application.name} to go on: nothing has been changed.")
    if plan.by != named_as(console, request):
        return _page(console, request, plan, f"{plan.by} has made this plan, in whose name it would be. Make your own.")
    refused = console.plans.execute(
        plan,
        who(console, request),
        lambda: console.watching.look_soon(application.name),
        application.audit,
    )
    if refused:
        return _page(console, request, plan, refused)
    return RedirectResponse(request.url.path, HTTPStatus.SEE_OTHER)


def _page(console: Console, request: Request, plan: ChangePlan, said: str) -> Response:
    application = opened(console, plan.application)
    return page(
        request,
        "plan.html",
        HTTPStatus.CONFLICT if said else HTTPStatus.OK,
        application=application,
        plan=plan,
        shown_rows=SHOWN_ROWS,
        said=said,
        tab=plan.tab,
    )


def _gone(request: Request) -> Response:
    return problem(request, HTTPStatus.NOT_FOUND, "No such plan", "The console drops old plans. Make a new plan.")
