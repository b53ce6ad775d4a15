"""An STS that issues an assumed role's credentials for a limited time, or refuses, and records its requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import NamedTuple
from urllib.parse import parse_qs


class Keys(NamedTuple):
    """The credentials; without a `key` each answer has another one."""

    key: str | None = None
    secret: str = "the-secret-of-the-role"
    token: str = "the-token-of-the-role"


GENERATED = Keys()
GIVEN = """<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>{key}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey><SessionToken>{token}</SessionToken>
<Expiration>{until}</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"""
DENIED = """<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>AccessDenied</Code>
<Message>not authorized to perform: sts:AssumeRole</Message></Error></ErrorResponse>"""


class Sts(ThreadingHTTPServer):
    """`lasts`: the credentials' lifetime; None: it refuses."""

    def __init__(self, lasts: timedelta | None, keys: Keys) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.lasts, self.keys, self.asked = lasts, keys, list[dict[str, str]]()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def answer(self) -> tuple[int, str]:
        if self.lasts is None:
            return 403, DENIED
        until = (datetime.now(UTC) + self.lasts).isoformat()
        key, secret, token = self.keys
        return 200, GIVEN.format(key=key or f"ASIA{len(self.asked)}", secret=secret, token=token, until=until)


class Answer(BaseHTTPRequestHandler):
    server: Sts

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.asked.append({name: values[0] for name, values in parse_qs(body).items()})
        status, text = self.server.answer()
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def sts(lasts: timedelta | None, keys: Keys = GENERATED) -> Iterator[Sts]:
    """On loopback, for the duration of the block."""
    with Sts(lasts, keys) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server
        server.shutdown()
