"""Failures: the shards whose handlers fail or whose owners crash, and what was set aside."""

from __future__ import annotations

import shlex

from starlette.requests import Request
from starlette.responses import Response

from sublet.console.console import Console, opened
from sublet.console.rendering import LIVE_HEADER, page
from sublet.console.watching import Seen
from sublet.decisions.set_aside_waiting import SetAsideWaiting
from sublet.errors import SubletError

LISTED = 200


def show(console: Console, request: Request) -> Response:
    """What was set aside is counted for the whole page alone, and not for each refresh."""
    application = opened(console, request.path_params["application"])
    seen = console.watching.seen(application.name) or Seen()
    shards = () if seen.status is None else seen.status.shards
    failing = sorted(
        (shard for shard in shards if shard.attempts or shard.crashes or shard.lost is not None),
        key=lambda shard: (shard.lost is None, -shard.attempts, -shard.crashes),
    )
    waiting: SetAsideWaiting | None = None
    problem = ""
    if LIVE_HEADER not in request.headers:
        try:
            waiting = application.aside.waiting()
        except SubletError as unknown:
            problem = str(unknown)
    command = [
        "sublet",
        "redrive",
        "--application",
        application.name,
        "--stream",
        application.stream or "STREAM",
    ]
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
        command=shlex.join([*command, "--from", application.aside.name, "--handler", "MODULE:FUNCTION"]),
        tab="failures",
    )
