"""The console as an ASGI application: its addresses, and its pages for errors."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from sublet.errors import SubletError
from sublet.operate.console.console_parts import Console, NoSuchApplication
from sublet.operate.console.forms import Form, posted
from sublet.operate.console.guard import Guard
from sublet.operate.console.leaving import noticing_leaves
from sublet.operate.console.pages import (
    application,
    control,
    failures,
    hash_keys,
    overview,
    plan,
    positions,
    records,
    shard,
    sign_in,
    workers,
)
from sublet.operate.console.people import may_change
from sublet.operate.console.rendering import FOLDER, problem

Shows = Callable[[Console, Request], Response]
Does = Callable[[Console, Request, Form], Response]


def console_app(console: Console, named: Collection[str] = (), *, is_public: bool = False) -> ASGIApp:
    """Returns the console's application behind its guard. `named`, `is_public`: see `is_ours`."""

    def shown(path: str, show: Shows) -> Route:
        return Route(path, partial(show, console), methods=["GET"])

    def searched(path: str, show: Shows) -> Route:
        """A route that may read for seconds: no longer than somebody waits for it."""
        return Route(path, noticing_leaves(partial(show, console)), methods=["GET"])

    def changed(path: str, act: Does) -> Route:
        return Route(path, posted(partial(_allowed, console, act)), methods=["POST"])

    def sent(path: str, act: Does, *, needs_session: bool = True) -> Route:
        """A route for a form that changes no application."""
        return Route(path, posted(partial(act, console), needs_session=needs_session), methods=["POST"])

    app = Starlette(
        routes=[
            shown("/", overview.show),
            shown("/open", sign_in.open_link),
            shown("/sign-in", sign_in.show),
            sent("/sign-in", sign_in.sign_in, needs_session=False),
            sent("/sign-out", sign_in.sign_out),
            shown("/a/{application}", application.show),
            shown("/a/{application}/shards/{shard}", shard.show),
            shown("/a/{application}/workers", workers.show),
            shown("/a/{application}/hash-keys", hash_keys.show),
            searched("/a/{application}/records", records.show),
            shown("/a/{application}/positions", positions.show),
            sent("/a/{application}/positions/seek", positions.plan_a_seek),
            sent("/a/{application}/positions/undo", positions.plan_an_undo),
            changed("/a/{application}/positions/snapshot", positions.keep_a_snapshot),
            shown("/a/{application}/failures", failures.show),
            sent("/a/{application}/failures/redrive", failures.plan_a_redrive),
            shown("/a/{application}/control", control.show),
            sent("/a/{application}/control/pause", control.plan_a_pause),
            sent("/a/{application}/control/drain", control.plan_a_drain),
            sent("/a/{application}/control/resume", control.plan_a_resume),
            sent("/a/{application}/control/release", control.plan_a_release),
            sent("/a/{application}/control/skip", control.plan_a_skip),
            shown("/a/{application}/plans/{number}", plan.show),
            changed("/a/{application}/plans/{number}", plan.execute),
            Mount("/static", StaticFiles(directory=FOLDER / "static")),
        ],
        exception_handlers={
            HTTPException: _http_problem,
            NoSuchApplication: _unknown,
            SubletError: _refused,
        },
    )
    app.state.console = console
    return Guard(app, console.access, named, is_public, console.proxy, console.log)


def _allowed(console: Console, act: Does, request: Request, form: Form) -> Response:
    if not console.allows_changes:
        return problem(
            request,
            HTTPStatus.FORBIDDEN,
            "This console is read-only",
            "Start it with --allow-changes, or run the command that the plan shows.",
        )
    if not may_change(console, request):
        return problem(
            request,
            HTTPStatus.FORBIDDEN,
            "You may look, and change nothing",
            "The console was started without your name among those who may: --may-move, or --may-move-group.",
        )
    return act(console, request, form)


def _http_problem(request: Request, raised: Exception) -> Response:
    assert isinstance(raised, HTTPException)
    status = HTTPStatus(raised.status_code)
    return problem(request, status, status.phrase, "There is no such page.")


def _unknown(request: Request, raised: Exception) -> Response:
    return problem(request, HTTPStatus.NOT_FOUND, "No such application", f"This console does not show {raised}.")


def _refused(request: Request, raised: Exception) -> Response:
    return problem(request, HTTPStatus.BAD_REQUEST, "That is not possible", str(raised))
