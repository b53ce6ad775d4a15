"""The page Control, which pauses the fleet, has leases released, and skips records."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from sublet.errors import ControlRefused, SubletError
from sublet.operate.console import controlling
from sublet.operate.console.applications import OpenApplication
from sublet.operate.console.console_parts import Console, opened
from sublet.operate.console.controlling import command_of, pause_text, pausing_of
from sublet.operate.console.forms import Form
from sublet.operate.console.pages.positions import shards_of, with_stream
from sublet.operate.console.people import named_as
from sublet.operate.console.plans import PreparedChange
from sublet.operate.console.rendering import page
from sublet.operate.pausing import ends_at
from sublet.operate.rules.change_audit import AuditEntry, current
from sublet.protocol.control import Pause

RECORDS_MAX = 1000


def show(console: Console, request: Request) -> Response:
    application = opened(console, request.path_params["application"])
    problem, pauses = "", list[tuple[str, str]]()
    try:
        standing = pausing_of(application).standing()
    except SubletError as unknown:
        problem = str(unknown)
    else:
        every: dict[str, Pause] = dict(standing.leases)
        if standing.application is not None:
            every = {"every shard": standing.application, **every}
        pauses = [(key, pause_text(pause)) for key, pause in every.items()]
    changes, unread = _changes(console, application)
    seen = console.watching.seen(application.name)
    shards = () if seen is None or seen.status is None else seen.status.shards
    return page(
        request,
        "control.html",
        application=application,
        problem=problem,
        pauses=pauses,
        changes=changes,
        unread=unread,
        shard=request.query_params.get("shard", ""),
        shard_ids=[shard.shard_id for shard in shards][:1000],
        tab="control",
    )


def _changes(console: Console, application: OpenApplication) -> tuple[list[AuditEntry], str]:
    """The changes, the newest first, or why they cannot be read."""
    try:
        return list(reversed(current(application.audit.entries(), console.clock.now()))), ""
    except SubletError as unknown:
        return [], str(unknown)


def plan_a_pause(console: Console, request: Request, form: Form) -> Response:
    by = named_as(console, request)
    application, shards, until = _opened(console, request), shards_of(form), form.get("until", "")
    ends = ends_at(until) if until else None
    fixed = ["--until", until] if until else []
    return _planned(
        console,
        application,
        by,
        f"Pause {', '.join(shards) or 'every shard'}" + (f" until {until}" if until else ""),
        command_of("pause", application, *fixed, shards=shards),
        lambda: controlling.prepare_pause(application, by, shards, ends),
    )


def plan_a_drain(console: Console, request: Request, form: Form) -> Response:  # noqa: ARG001 - every form has the same shape
    by = named_as(console, request)
    application = _opened(console, request)
    return _planned(
        console,
        application,
        by,
        "Drain every shard",
        command_of("drain", application),
        lambda: controlling.prepare_drain(application, by),
    )


def plan_a_resume(console: Console, request: Request, form: Form) -> Response:
    by = named_as(console, request)
    application, shards = _opened(console, request), shards_of(form)
    return _planned(
        console,
        application,
        by,
        f"Resume {', '.join(shards) or 'everything'}",
        command_of("resume", application, shards=shards),
        lambda: controlling.prepare_resume(application, shards),
    )


def plan_a_release(console: Console, request: Request, form: Form) -> Response:
    by = named_as(console, request)
    application, shard = _opened(console, request), _shard(form)
    return _planned(
        console,
        application,
        by,
        f"Release {shard}",
        command_of("release", application, shard),
        lambda: controlling.prepare_release(application, by, shard),
    )


def plan_a_skip(console: Console, request: Request, form: Form) -> Response:
    by = named_as(console, request)
    application, shard = with_stream(_opened(console, request)), _shard(form)
    records = form.get("records", "1")
    if not records.isdecimal() or not 0 < int(records[:6]) <= RECORDS_MAX:
        raise ControlRefused(f"{records!r} is not a number of records, 1 to {RECORDS_MAX}")
    options = (*application.stream_option, shard, "--records", records, "--execute")
    return _planned(
        console,
        application,
        by,
        f"Skip {records} records of {shard}" if records != "1" else f"Skip one record of {shard}",
        command_of("skip", application, *options),
        lambda: controlling.prepare_skip(application, by, shard, int(records)),
    )


def _opened(console: Console, request: Request) -> OpenApplication:
    return opened(console, request.path_params["application"])


def _shard(form: Form) -> str:
    shards = shards_of(form)
    if len(shards) != 1:
        raise ControlRefused("name one shard")
    return shards[0]


def _planned(
    console: Console,
    application: OpenApplication,
    by: str,
    what: str,
    command: str,
    prepare: Callable[[], PreparedChange],
) -> Response:
    plan = console.plans.begin(application.name, by, "control", what, command, prepare)
    return RedirectResponse(f"/a/{application.name}/plans/{plan.number}", HTTPStatus.SEE_OTHER)
