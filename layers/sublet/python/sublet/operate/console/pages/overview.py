"""The page of all applications, worst first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from sublet.decisions.status.shard_status import BAD_STATUSES, NOTHING, WORST_FIRST
from sublet.decisions.status.status_rules import Status
from sublet.operate.console.console_parts import Console
from sublet.operate.console.line_chart import Graph
from sublet.operate.console.pages.application import lag_graph
from sublet.operate.console.rendering import page
from sublet.operate.console.shard_rows import statuses_of


@dataclass(frozen=True, slots=True)
class ApplicationRow:
    """One line of the page. `workers`: how many hold a lease; `problem`: why the last look failed, or empty; `age`: see
    `stale_age`.
    """

    name: str
    problem: str
    worst: Status | None
    statuses: Mapping[Status, int]
    lag: timedelta | None
    lag_is_at_least: bool
    workers: int
    graph: Graph
    age: timedelta | None = None


def show(console: Console, request: Request) -> Response:
    names = console.applications.names()
    if len(names) == 1 and "x-sublet-live" not in request.headers:
        return RedirectResponse(f"/a/{names[0]}")
    rows = sorted((_row(console, name) for name in names), key=_badness)
    return page(
        request,
        "overview.html",
        rows=rows,
        is_looking=any(row.worst is None and not row.problem for row in rows),
        bad=sum(1 for row in rows if row.worst in BAD_STATUSES or row.problem),
        application=None,
    )


def _row(console: Console, name: str) -> ApplicationRow:
    seen = console.watching.glance(name)
    status = seen.status
    graph = lag_graph(seen.hour, console.clock.now())
    if status is None:
        return ApplicationRow(name, seen.problem, None, {}, None, False, 0, graph)
    statuses = statuses_of(status)
    worst = next(iter(statuses), None)
    return ApplicationRow(
        name,
        seen.problem,
        worst,
        statuses,
        status.lag,
        status.lag_is_at_least,
        len(status.workers),
        graph,
        seen.stale_age(console.clock.now()),
    )


def _badness(row: ApplicationRow) -> tuple[bool, int, timedelta, str]:
    rank = len(WORST_FIRST) if row.worst is None else WORST_FIRST.index(row.worst)
    return not row.problem, rank, -(row.lag or NOTHING), row.name
