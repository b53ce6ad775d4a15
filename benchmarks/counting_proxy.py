"""A proxy in front of an AWS endpoint on loopback, which counts the requests of each operation."""

from __future__ import annotations

import http.client
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import urlsplit

HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding"})


class Reply(NamedTuple):
    """The service's answer."""

    status: int
    headers: list[tuple[str, str]]
    content: bytes


class CountingProxy:
    """`counts`: by operation, such as UpdateItem."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.counts: Counter[str] = Counter()
        self.url = ""

    def writes(self) -> int:
        """A transaction or a batch counts as one."""
        return sum(
            number
            for operation, number in self.counts.items()
            if (operation.endswith("Item") and operation != "GetItem") or operation.endswith("WriteItems")
        )


@contextmanager
def counting_proxy(upstream: str) -> Iterator[CountingProxy]:
    """Listens on a free loopback port until the block ends."""
    proxy = CountingProxy(upstream)

    def count(connection: Connection, operation: str, body: bytes) -> None:
        proxy.counts[operation] += 1
        connection.answer(connection.forward(upstream, body))

    with serving(count) as url:
        proxy.url = url
        yield proxy


class Connection(BaseHTTPRequestHandler):
    """One connection of a client: each request is forwarded, answered, or cut off."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def forward(self, upstream: str, body: bytes) -> Reply:
        connection = http.client.HTTPConnection(urlsplit(upstream).netloc, timeout=30)
        try:
            connection.request("POST", self.path, body, dict(self.headers.items()))
            reply = connection.getresponse()
            return Reply(reply.status, reply.getheaders(), reply.read())
        finally:
            connection.close()

    def answer(self, reply: Reply) -> None:
        self.begin_answer(reply)
        self.wfile.write(reply.content)

    def begin_answer(self, reply: Reply) -> None:
        """Sends everything but the content."""
        self._begin(reply.status, reply.headers)
        self.send_header("content-length", str(len(reply.content)))
        self.end_headers()

    def begin_chunks(self, status: int, headers: list[tuple[str, str]]) -> None:
        """Begins an answer whose content comes piece by piece, with `write_chunk`."""
        self._begin(status, headers)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def write_chunk(self, piece: bytes) -> None:
        """An empty piece is the end."""
        self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))

    def _begin(self, status: int, headers: list[tuple[str, str]]) -> None:
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in HOP_BY_HOP | {"content-length", "date", "server"}:
                self.send_header(name, value)

    def hang_up(self) -> None:
        """Closes the connection without an answer."""
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:
            """The client was killed or has given up, or the service has ended."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base class's name
        """Logs nothing."""


@contextmanager
def serving(respond: Callable[[Connection, str, bytes], None]) -> Iterator[str]:
    """A loopback server until the block ends; yields its URL. `respond` gets each request: operation and body."""

    class Responding(Connection):
        def do_POST(self) -> None:
            operation = str(self.headers.get("x-amz-target", "")).rpartition(".")[2]
            respond(self, operation, self.rfile.read(int(self.headers["content-length"])))

    server = ThreadingHTTPServer(("127.0.0.1", 0), Responding)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
