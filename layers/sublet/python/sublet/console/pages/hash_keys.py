"""The hash-key map: where the stream is hot."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from sublet.console.console import Console, opened
from sublet.console.hash_key_map import HOT, bars_of, columns_of
from sublet.console.rendering import page
from sublet.console.watching import Seen

LISTED = 20
"""The hottest shards, as a table."""


def show(console: Console, request: Request) -> Response:
    application = opened(console, request.path_params["application"])
    seen = console.watching.seen(application.name) or Seen()
    bars = () if seen.status is None else bars_of(seen.status.shards)
    hottest = sorted((bar for bar in bars if bar.load is not None), key=lambda bar: -(bar.load or 0.0))
    return page(
        request,
        "hash_keys.html",
        application=application,
        seen=seen,
        status=seen.status,
        bars=bars,
        columns=columns_of(bars),
        hottest=hottest[:LISTED],
        hot=sum(bar.is_hot for bar in bars),
        times_hot=HOT,
        tab="hash-keys",
    )
