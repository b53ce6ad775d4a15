"""One application: its state at a glance, its last hour, and its shards, worst first."""

from __future__ import annotations

from datetime import datetime, timedelta

from starlette.requests import Request
from starlette.responses import Response

from sublet.console.console import Console, opened
from sublet.console.graph import graph_of
from sublet.console.hour import Hour
from sublet.console.rendering import bytes_text, page
from sublet.console.shard_rows import UNHEALTHY, ShardChoice, page_of, words_of
from sublet.console.watching import Seen
from sublet.decisions.shard_status import WORST_FIRST
from sublet.operate.shown import age_text


def show(console: Console, request: Request) -> Response:
    application = opened(console, request.path_params["application"])
    seen = console.watching.seen(application.name) or Seen()
    asked = request.query_params
    number = asked.get("page", "1")
    choice = ShardChoice(
        asked.get("q", "").strip(),
        asked.get("word", ""),
        asked.get("sort", "worst"),
        int(number) if number.isdecimal() and len(number) < 6 else 1,
    )
    status = seen.status
    words = {} if status is None else words_of(status)
    return page(
        request,
        "application.html",
        application=application,
        seen=seen,
        status=status,
        choice=choice,
        unhealthy=UNHEALTHY,
        all_words=WORST_FIRST,
        words=words,
        worst=next(iter(words), None),
        shards=None if status is None else page_of(status, choice),
        graphs=graphs_of(seen.hour, console.clock.now()),
        moves=sum(sample.moves for sample in seen.hour),
        tab="shards",
    )


def graphs_of(hour: Hour, now: datetime) -> dict[str, object]:
    lags = [(each.at, None if each.lag is None else each.lag.total_seconds()) for each in hour]
    return {
        "lag": graph_of(lags, now, age_text_of),
        "rate": graph_of(
            [(each.at, each.rate) for each in hour], now, lambda count: f"{bytes_text(count)}/s"
        ),
    }


def age_text_of(seconds: float) -> str:
    return age_text(timedelta(seconds=seconds))
