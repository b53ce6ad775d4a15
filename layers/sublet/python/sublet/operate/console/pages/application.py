"""The page of one application: its state at a glance, its last hour, and its shards, worst first."""

from __future__ import annotations

from datetime import datetime, timedelta

from starlette.requests import Request
from starlette.responses import Response

from sublet.decisions.status.shard_status import WORST_FIRST
from sublet.operate.console.console_parts import Console, opened
from sublet.operate.console.line_chart import Graph, graph_of
from sublet.operate.console.rendering import bytes_text, page
from sublet.operate.console.shard_rows import DEPTH_MAX, UNHEALTHY, ShardChoice, page_of, statuses_of
from sublet.operate.console.watching import ApplicationView
from sublet.operate.formatting import age_text
from sublet.operate.rules.last_hour import LastHour, by_minute


def show(console: Console, request: Request) -> Response:
    application = opened(console, request.path_params["application"])
    seen = console.watching.seen(application.name) or ApplicationView()
    asked = request.query_params
    number = asked.get("page", "1")
    choice = ShardChoice(
        asked.get("q", "").strip(),
        asked.get("status", ""),
        asked.get("sort", "worst"),
        int(number) if number.isdecimal() and len(number) < 6 else 1,
    )
    status = seen.status
    statuses = {} if status is None else statuses_of(status)
    return page(
        request,
        "application.html",
        application=application,
        seen=seen,
        status=status,
        choice=choice,
        unhealthy=UNHEALTHY,
        depth_max=DEPTH_MAX,
        all_statuses=WORST_FIRST,
        statuses=statuses,
        worst=next(iter(statuses), None),
        shards=None if status is None else page_of(status, choice),
        graphs=graphs_of(seen.hour, console.clock.now()),
        tab="shards",
    )


def graphs_of(hour: LastHour, now: datetime) -> dict[str, Graph]:
    return {
        "lag": lag_graph(hour, now),
        "moves": graph_of(by_minute(hour.moves, now), lambda moves: f"{moves:,.0f}"),
        "rate": graph_of(by_minute(hour.kbps, now), lambda kbps: f"{bytes_text(1024 * kbps)}/s"),
    }


def lag_graph(hour: LastHour, now: datetime) -> Graph:
    return graph_of(by_minute(hour.lags, now), lambda seconds: age_text(timedelta(seconds=seconds)))
