"""A service on loopback with scripted JSON replies, for errors that emulators cannot produce."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """One HTTP reply. `body` None: the connection is closed without one; `is_cut`: it is closed in the middle of it;
    `is_reset`: it breaks there."""

    status: int
    body: Json | None
    is_cut: bool = False
    is_reset: bool = False


HANG_UP = Reply(0, None)


def cut(body: Json) -> Reply:
    return Reply(200, body, is_cut=True)


def reset(body: Json) -> Reply:
    return Reply(200, body, is_reset=True)


def error(code: str, message: str = "said so", status: int = 400) -> Reply:
    return Reply(status, {"__type": code, "message": message})


@dataclass
class ScriptedService:
    """Replies by operation: each is given once, the last one repeatedly. `requests` records the requests."""

    replies: defaultdict[str, deque[Reply]] = field(default_factory=lambda: defaultdict(deque))
    requests: list[tuple[str, Json]] = field(default_factory=list)
    url: str = ""
    dated: float = field(default_factory=time.time)
    """In the Date of each reply, so that a second that passes between two makes no difference."""

    def will(self, operation: str, *replies: Reply | Json) -> None:
        self.replies[operation] = deque(r if isinstance(r, Reply) else Reply(200, r) for r in replies)

    def answer(self, operation: str, request: Json) -> Reply:
        self.requests.append((operation, request))
        waiting = self.replies[operation]
        assert waiting, f"{operation} is not in the script"
        return waiting.popleft() if len(waiting) > 1 else waiting[0]

    def asked(self, operation: str) -> list[Json]:
        return [request for name, request in self.requests if name == operation]


@contextmanager
def scripted_service(service: ScriptedService | None = None) -> Iterator[ScriptedService]:
    """`service`: one that computes its own answers."""
    answering = service or ScriptedService()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            operation = self.headers["X-Amz-Target"].rpartition(".")[2]
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            reply = answering.answer(operation, request)
            if reply.body is None:
                self.close_connection = True
                return
            payload = json.dumps(reply.body).encode()
            self.send_response(reply.status)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.close_connection = is_broken = reply.is_cut or reply.is_reset
            self.wfile.write(payload[: len(payload) // 2] if is_broken else payload)
            if reply.is_reset:
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()

        def date_time_string(self, timestamp: float | None = None) -> str:
            return super().date_time_string(answering.dated if timestamp is None else timestamp)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002, ARG002 - the base class names them
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        answering.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield answering
        finally:
            server.shutdown()
            thread.join()
