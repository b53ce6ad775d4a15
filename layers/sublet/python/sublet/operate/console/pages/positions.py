"""The page Positions, which moves positions, undoes the last move, and shows the snapshots."""

from __future__ import annotations

import shlex
from http import HTTPStatus

from msgspec import structs
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from sublet.errors import SeekRefused, StreamNotFound, SubletError
from sublet.operate.console.applications import OpenApplication
from sublet.operate.console.console_parts import Console, opened
from sublet.operate.console.forms import Form
from sublet.operate.console.people import named_as, who
from sublet.operate.console.rendering import page
from sublet.operate.console.seeking import SeekRequest, command_of, fixed, prepare_seek, words_of
from sublet.operate.positions.seek_time import EARLIEST, LATEST, place
from sublet.operate.positions.snapshots import snapshot_by_hand
from sublet.operate.rules.change_audit import AuditEntry

SHARDS_NAMED = 50


def show(console: Console, request: Request) -> Response:
    application = opened(console, request.path_params["application"])
    snapshots = application.snapshots.snapshots()
    seen = console.watching.seen(application.name)
    shards = () if seen is None or seen.status is None else seen.status.shards
    return page(
        request,
        "positions.html",
        application=application,
        snapshots=tuple(reversed(snapshots)),
        last_move=next((each for each in reversed(snapshots) if each.moved), None),
        shard=request.query_params.get("shard", ""),
        shard_ids=[shard.shard_id for shard in shards][:1000],
        others=[name for name in console.applications.names() if name != application.name],
        now=f"{console.clock.now():%Y-%m-%dT%H:%M:%S}",
        tab="positions",
    )


def plan_a_seek(console: Console, request: Request, form: Form) -> Response:
    application = with_stream(opened(console, request.path_params["application"]))
    return _planned(console, application, named_as(console, request), request_of(form))


def plan_an_undo(console: Console, request: Request, form: Form) -> Response:  # noqa: ARG001 - every form has the same shape
    application = with_stream(opened(console, request.path_params["application"]))
    return _planned(console, application, named_as(console, request), SeekRequest())


def keep_a_snapshot(console: Console, request: Request, form: Form) -> Response:
    application = opened(console, request.path_params["application"])
    name = form.get("name", "")
    scan = application.ports.table.scan()
    taken = snapshot_by_hand(name, scan, console.clock.now(), named_as(console, request), application.known)
    made_by, command = (
        who(console, request),
        shlex.join(["sublet", "snapshot", name, "--application", application.name]),
    )
    number = f"snapshot {name} {taken.taken_at.isoformat()}"
    entry = AuditEntry(number, taken.taken_at, made_by, f"keep snapshot {name}", command)
    application.audit.keep(entry)
    try:
        application.snapshots.keep_snapshot(taken)
    except SubletError as refused:
        application.audit.keep(structs.replace(entry, state="failed", said=str(refused)))
        raise
    console.log.info("console change", application=application.name, what=entry.what, who=made_by)
    application.audit.keep(structs.replace(entry, state="done"))
    return RedirectResponse(f"/a/{application.name}/positions", HTTPStatus.SEE_OTHER)


def request_of(form: Form) -> SeekRequest:
    """Raises SeekRefused."""
    shards = shards_of(form)
    match form.get("to"):
        case "earliest":
            return SeekRequest(place(EARLIEST), shards=shards)
        case "latest":
            return SeekRequest(place(LATEST), shards=shards)
        case "ago":
            return SeekRequest(place(form.get("ago", "")), shards=shards)
        case "time":
            picked = form.get("utc", "")  # as a date picker sends it: without a zone
            return SeekRequest(place(f"{picked}Z" if picked else form.get("time", "")), shards=shards)
        case "snapshot":
            return SeekRequest(snapshot=form.get("snapshot", ""), shards=shards)
        case "like":
            return SeekRequest(like=form.get("like", ""), shards=shards)
    raise SeekRefused("choose where to move the positions")


def shards_of(form: Form) -> tuple[str, ...]:
    """Raises SeekRefused."""
    shards = tuple(form.get("shards", "").replace(",", " ").split())
    if len(shards) > SHARDS_NAMED:
        raise SeekRefused(f"name at most {SHARDS_NAMED} shards, or none for all")
    return shards


def with_stream(application: OpenApplication) -> OpenApplication:
    if not application.streams:
        raise StreamNotFound(
            f"the stream of {application.name} is not known: start the console with {application.name}=STREAM"
        )
    return application


def _planned(console: Console, application: OpenApplication, by: str, wanted: SeekRequest) -> Response:
    wanted = fixed(wanted, application.ports.stream.service_time())
    plan = console.plans.begin(
        application.name,
        by,
        "positions",
        words_of(wanted),
        command_of(wanted, application),
        lambda: prepare_seek(wanted, application, console.applications, by),
    )
    return RedirectResponse(f"/a/{application.name}/plans/{plan.number}", HTTPStatus.SEE_OTHER)
