"""The page of workers and groups of workers, with what each holds beside its fair share."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from sublet.operate.console.console_parts import Console, opened
from sublet.operate.console.rendering import page
from sublet.operate.console.watching import ApplicationView

LISTED = 200


def show(console: Console, request: Request) -> Response:
    application = opened(console, request.path_params["application"])
    seen = console.watching.seen(application.name) or ApplicationView()
    held = None if seen.status is None else seen.status.distribution
    workers = () if held is None else tuple(sorted(held.workers, key=lambda worker: -worker.leases))
    return page(
        request,
        "workers.html",
        application=application,
        seen=seen,
        held=held,
        workers=workers[:LISTED],
        more=max(0, len(workers) - LISTED),
        most=max([1, *(worker.leases for worker in workers), 0 if held is None else held.target]),
        tab="workers",
    )
