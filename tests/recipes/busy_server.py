"""An HTTP server on loopback that is busy, slow, or refuses, as its test says."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Answer(NamedTuple):
    status: int = 200
    retry_after: int | None = None
    """Seconds."""


@dataclass
class BusyServer:
    """answer   called with a body, when it comes; it may wait
    posted   the moment, idempotency key, body and status of each request, in order of their answers
    """

    url: str = ""
    answer: Callable[[bytes], Answer] = lambda _: Answer()
    posted: list[tuple[float, str, bytes, int]] = field(default_factory=list)

    def taken(self) -> list[bytes]:
        return [body for _, _, body, status in list(self.posted) if status == 200]


@contextmanager
def busy_server() -> Iterator[BusyServer]:
    served = BusyServer()

    class Answering(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            given = served.answer(body)
            served.posted.append((time.monotonic(), self.headers["Idempotency-Key"], body, given.status))
            self.send_response(given.status)
            if given.retry_after is not None:
                self.send_header("Retry-After", str(given.retry_after))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class' name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    server.daemon_threads = True
    served.url = f"http://127.0.0.1:{server.server_port}/orders"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
