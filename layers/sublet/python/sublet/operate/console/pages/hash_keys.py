"""The hash-key map: where each stream is hot."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from sublet.operate.console.console_parts import Console, opened
from sublet.operate.console.hash_key_map import HOT, NO_VERDICTS, hottest_first, maps_of
from sublet.operate.console.rendering import page
from sublet.operate.console.watching import ApplicationView

LISTED = 20
"""How many of the hottest shards the table lists."""


def show(console: Console, request: Request) -> Response:
    application = opened(console, request.path_params["application"])
    seen = console.watching.seen(application.name) or ApplicationView()
    verdicts = NO_VERDICTS if seen.heat is None else seen.heat.shards
    maps = () if seen.status is None else maps_of(seen.status.shards, verdicts)
    bars = [bar for each in maps for bar in each.bars]
    return page(
        request,
        "hash_keys.html",
        application=application,
        seen=seen,
        status=seen.status,
        maps=maps,
        hottest=hottest_first(bars)[:LISTED],
        hot=sum(bar.is_hot for bar in bars),
        times_hot=HOT,
        tab="hash-keys",
    )
