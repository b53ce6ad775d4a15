"""A process' health over HTTP, for an orchestrator: /health/live and /health/ready, 200 or 503, with a reason as JSON.
With the extra `metrics`, /metrics is Prometheus' page.

It never answers with a record's data, a key or a setting. It uses the standard library, which is enough for two small
answers a few times a minute.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from sublet.decisions.session.process_health import ProcessReport, ShardReport
from sublet.errors import SettingsError
from sublet.ports import Tasks
from sublet.runtimes import prometheus_page

Answers = Callable[[ProcessReport], bool]

PATHS: dict[str, Answers] = {
    "/health/live": lambda report: report.is_live,
    "/health/ready": lambda report: report.is_ready,
}
PATIENCE_SECONDS = 5.0
"""How long a request may take, because a client that sends nothing holds a thread."""
STALLS_TOLD = 100
PLAIN = "text/plain; charset=utf-8"


@contextmanager
def serving_health(address: str | None, report: Callable[[], ProcessReport], tasks: Tasks) -> Iterator[None]:
    """Serve at `host:port` while the block runs, or not at all if that is None. Raises SettingsError if the port is not
    free.
    """
    if address is None:
        yield
        return
    host, _, port = address.rpartition(":")
    try:
        server = _server(host.strip("[]"), int(port), _handler(report))
    except OSError as problem:
        raise SettingsError("health", address, f"an address that is free: {problem}") from problem
    serving = tasks.spawn(server.serve_forever)
    try:
        yield
    finally:
        server.shutdown()
        serving.result()
        server.server_close()


def as_json(report: ProcessReport) -> dict[str, object]:
    return {
        "live": report.is_live,
        "ready": report.is_ready,
        "because": report.because,
        "shards": report.shards,
        "stalls": [_stall(shard) for shard in report.stalls[:STALLS_TOLD]],
        "unread": [_unread(shard) for shard in report.unread[:STALLS_TOLD]],
    }


def _stall(shard: ShardReport) -> dict[str, object]:
    return {
        "shard_id": shard.shard_id,
        "stands_still_seconds": _seconds(shard.stands_still),
        "call": shard.call,
        "call_seconds": _seconds(shard.call_lasts),
        "millis_behind_latest": shard.millis_behind_latest,
    }


def _unread(shard: ShardReport) -> dict[str, object]:
    return {
        "shard_id": shard.shard_id,
        "unanswered_seconds": _seconds(shard.unanswered_for),
        "problem": shard.unanswered,
    }


def _seconds(duration: timedelta) -> int:
    return int(duration.total_seconds())


def metrics_page(accepted: str | None) -> tuple[HTTPStatus, bytes, str]:
    """Returns the status, the page and its content type."""
    if not prometheus_page.has_library():
        return HTTPStatus.NOT_FOUND, prometheus_page.MISSING.encode(), PLAIN
    try:
        prometheus_page.register()
        body, content_type = prometheus_page.page(accepted)
    except Exception as fault:  # noqa: BLE001 - a collector of the program's own may fail
        return HTTPStatus.INTERNAL_SERVER_ERROR, f"a collector raised {type(fault).__name__}".encode(), PLAIN
    return HTTPStatus.OK, body, content_type


class _Server(ThreadingHTTPServer):
    daemon_threads = True


class _ServerOfIpv6(_Server):
    address_family = socket.AF_INET6


def _server(host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> _Server:
    """`::` takes IPv4 too, where the machine lets it: a cluster's pods may have either, or both."""
    return (_ServerOfIpv6 if ":" in host else _Server)((host, port), handler)


def _handler(report: Callable[[], ProcessReport]) -> type[BaseHTTPRequestHandler]:
    """Returns a handler class for one server, because http.server wants a class."""

    class Health(BaseHTTPRequestHandler):
        timeout = PATIENCE_SECONDS

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            answers = PATHS.get(path)
            if path == prometheus_page.PATH:
                self._metrics()
                return
            if answers is None:
                self.send_error(HTTPStatus.NOT_FOUND, "no such page")
                return
            now = report()
            body = json.dumps(as_json(now)).encode()
            self._answer(HTTPStatus.OK if answers(now) else HTTPStatus.SERVICE_UNAVAILABLE, body, "application/json")

        def _metrics(self) -> None:
            """The first scrape imports the library."""
            self._answer(*metrics_page(self.headers.get("Accept")))

        def _answer(self, status: HTTPStatus, body: bytes, content_type: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815 - as http.server looks for it

        def version_string(self) -> str:
            return "sublet"

        def log_message(self, *_: object) -> None:
            """Logs nothing, because an orchestrator asks every few seconds."""

    return Health
