"""A schema registry over HTTP, on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Served:
    url: str
    seen: list[tuple[str, str | None]] = field(default_factory=list)
    """The paths that were asked for, each with its Authorization."""


class served:  # noqa: N801 - a context manager
    """A server on loopback that answers each path with a status and JSON, or bytes."""

    def __init__(self, answers: Mapping[str, tuple[int, Any]]) -> None:
        seen: list[tuple[str, str | None]] = []

        class Answering(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                seen.append((self.path, self.headers.get("Authorization")))
                status, answer = answers.get(self.path, (404, {"error_code": 40403}))
                body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class' name
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        self._served = Served(f"http://127.0.0.1:{self._server.server_port}", seen)

    def __enter__(self) -> Served:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self._served

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
