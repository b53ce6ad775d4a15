"""Stands before an AWS endpoint on loopback and counts the requests of each operation, as they cross the wire."""

from __future__ import annotations

import http.client
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding"})


class CountingProxy:
    """`counts` grows by operation, such as UpdateItem."""

    def __init__(self, upstream: str) -> None:
        self.upstream = urlsplit(upstream).netloc
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
    """On a free port of loopback, for as long as the block."""
    proxy = CountingProxy(upstream)

    class Forward(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            proxy.counts[self.headers.get("x-amz-target", "").rpartition(".")[2]] += 1
            connection = http.client.HTTPConnection(proxy.upstream, timeout=30)
            connection.request("POST", self.path, body, dict(self.headers.items()))
            reply = connection.getresponse()
            content = reply.read()
            self.send_response(reply.status)
            for name, value in reply.getheaders():
                if name.lower() not in HOP_BY_HOP | {"content-length", "date", "server"}:
                    self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            connection.close()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base class's name
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Forward)
    server.daemon_threads = True
    proxy.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
