"""The connection of one shard's subscription: a socket of its own, which is read only while a reader waits for records.

botocore's event stream cannot be used for this. It speaks only HTTP/1.1, its `close` does not wake a thread that reads,
and without chunks it returns nothing before 64 KiB have come. Here a shutdown wakes the reader at once, and bytes are
returned as they come.
"""

from __future__ import annotations

import socket
import ssl
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, cast
from urllib.parse import SplitResult, unquote, urlsplit

from sublet.aws.push.push_http import Http1Reply, Http2Reply, Reply, Request, ResponseHead
from sublet.system.clock import SystemClock

CONNECT_SECONDS = 3.0
ANSWER_SECONDS = 10.0
"""The head of a reply may take this many seconds, whatever else comes meanwhile."""

RECEIVED_AT_ONCE = 2**18
BUFFERED = 2**19
"""Bytes that the kernel keeps for a reader that does not read; beyond that, the sender has to wait."""

_PROXY_REPLY_MAX = 2**14


class ConnectionLost(OSError):
    """The service, or something in between, ended the connection before the reply was complete."""


@dataclass(frozen=True, slots=True)
class Network:
    """How to reach the service: what botocore was configured with.

    tls             makes the TLS context; called once for each connection, which may share it
    proxy_for       the URL of the proxy for a URL, or None
    proxy_tls       makes the TLS context for a proxy whose URL begins with https
    steady          the steady clock
    is_http2_known  the endpoint speaks HTTP/2, also without TLS, which would negotiate it
    """

    tls: Callable[[], ssl.SSLContext]
    proxy_for: Callable[[str], str | None] = lambda _: None
    proxy_tls: Callable[[], ssl.SSLContext] = ssl.create_default_context
    steady: Callable[[], datetime] = SystemClock().steady
    is_http2_known: bool = False


def tls_context(
    bundle: str | None,
    certificate: tuple[str, str | None] | None,
    *,
    is_verified: bool,
    is_http2: bool = False,
) -> ssl.SSLContext:
    """`bundle`: the file of authorities; `certificate`: the client's own, and its key; `is_verified`: whether the
    service's is verified; `is_http2`: whether HTTP/2 may be spoken.
    """
    context = ssl.create_default_context(cafile=bundle)
    if not is_verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(*certificate)
    context.set_alpn_protocols(["h2", "http/1.1"] if is_http2 else ["http/1.1"])
    return context


class _ConnectedSocket(NamedTuple):
    """`wire`: the socket below, which any thread may shut down."""

    stream: socket.socket
    wire: socket.socket


class PushConnection:
    """One request and its reply, for one thread at a time; any thread may interrupt it. Raises OSError and
    ReplyDamaged.
    """

    def __init__(self, request: Request, network: Network) -> None:
        """Sends the request."""
        self._came = b""
        """The bytes of the body that came with the head."""
        self._steady = network.steady
        self._socket, self._wire = _connected(request.url, network)
        try:
            self._reply: Reply = self._spoken(network)(request)
            self._send()
        except BaseException:
            self._socket.close()
            raise

    def head(self) -> ResponseHead:
        """Wait for the reply's head. Bytes of the body that came with it are kept for `receive`."""
        until = self._steady() + timedelta(seconds=ANSWER_SECONDS)
        while self._reply.head is None and not self._reply.is_over:
            body = self.receive(self._seconds(until))
            if body is None:
                break
            self._came = body  # empty before the head
        if self._reply.head is None:
            raise ConnectionLost(f"no reply within {ANSWER_SECONDS:.0f} seconds")
        return self._reply.head

    def receive_body(self, seconds: float) -> bytes | None:
        """The next bytes of the body; None if none come within this time, whatever else does. Empty at the end."""
        until = self._steady() + timedelta(seconds=seconds)
        while (body := self.receive(self._seconds(until))) == b"" and not self._reply.is_over:
            pass
        return body

    def _seconds(self, until: datetime) -> float:
        return max((until - self._steady()).total_seconds(), 0.0)

    def receive(self, seconds: float) -> bytes | None:
        """The next bytes of the body; None if nothing comes within this time. Empty at the end, or if only other bytes
        came.
        """
        came, self._came = self._came, b""
        if came or self._reply.is_over:
            return came
        self._socket.settimeout(max(seconds, 0.0))
        try:
            data = self._socket.recv(RECEIVED_AT_ONCE)
        except (TimeoutError, BlockingIOError, ssl.SSLWantReadError):
            return None
        if not data:
            if self._is_ended_by_close():
                self._reply.is_over = True
                return b""
            raise ConnectionLost("the connection ended before the reply did")
        body = self._reply.feed(data)
        self._send()
        return body

    @property
    def is_over(self) -> bool:
        """Whether the reply is complete."""
        return self._reply.is_over and not self._came

    def interrupt(self) -> None:
        """Any thread may call this. It does not use `SSLSocket.shutdown`, which would take the TLS object from the
        thread that uses it.
        """
        with suppress(OSError):
            socket.socket.shutdown(self._wire, socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()

    def _send(self) -> None:
        data = self._reply.to_send()
        if data:
            self._socket.settimeout(ANSWER_SECONDS)
            self._socket.sendall(data)

    def _spoken(self, network: Network) -> Callable[[Request], Reply]:
        negotiated = getattr(self._socket, "selected_alpn_protocol", None)  # a plain socket has none
        protocol = None if negotiated is None else negotiated()
        return Http2Reply if protocol == "h2" or network.is_http2_known else Http1Reply

    def _is_ended_by_close(self) -> bool:
        """A reply over HTTP/1.1 that has neither a length nor chunks ends with its connection."""
        head = self._reply.head
        if head is None or isinstance(self._reply, Http2Reply):
            return False
        return not {"transfer-encoding", "content-length"} & head.headers.keys()


def _connected(url: SplitResult, network: Network) -> _ConnectedSocket:
    host, port = _address(url)
    proxy = network.proxy_for(url.geturl())
    wire = _opened(*_address(urlsplit(proxy))) if proxy else _opened(host, port)
    try:
        if proxy:
            wire = _through_proxy(wire, f"{host}:{port}", urlsplit(proxy), network)
        if url.scheme != "https":
            return _ConnectedSocket(wire, wire)
        if not isinstance(wire, ssl.SSLSocket):
            wire = network.tls().wrap_socket(wire, server_hostname=host)
            return _ConnectedSocket(wire, wire)
        from urllib3.util.ssltransport import SSLTransport  # noqa: PLC0415 - for TLS within TLS alone

        within = SSLTransport(wire, network.tls(), server_hostname=host)
        return _ConnectedSocket(
            cast("socket.socket", within), wire
        )  # it has a socket's methods, as far as we call them
    except BaseException:
        wire.close()
        raise


def _through_proxy(wire: socket.socket, to: str, proxy: SplitResult, network: Network) -> socket.socket:
    """A proxy whose URL begins with https is spoken to over TLS, password included."""
    if proxy.scheme == "https":
        wire = network.proxy_tls().wrap_socket(wire, server_hostname=proxy.hostname)
    try:
        _tunnel(wire, to, proxy)
    except BaseException:
        wire.close()
        raise
    return wire


def _opened(host: str, port: int) -> socket.socket:
    opened = socket.create_connection((host, port), timeout=CONNECT_SECONDS)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFERED)
    opened.settimeout(ANSWER_SECONDS)
    return opened


def _address(url: SplitResult) -> tuple[str, int]:
    return url.hostname or "", url.port or (443 if url.scheme == "https" else 80)


def _tunnel(plain: socket.socket, to: str, proxy: SplitResult) -> None:
    """Asks the proxy for a connection."""
    lines = [f"CONNECT {to} HTTP/1.1", f"host: {to}"]
    if proxy.username is not None:
        user = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        lines.append(f"proxy-authorization: Basic {b64encode(user.encode()).decode()}")
    plain.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
    reply = b""
    while not reply.endswith(b"\r\n\r\n"):
        byte = plain.recv(1)
        if not byte or len(reply) > _PROXY_REPLY_MAX:
            raise ConnectionLost("the proxy did not answer")
        reply += byte
    status = reply.split(b" ", 2)[1][:3] if reply.count(b" ") else b""
    if status != b"200":
        raise ConnectionLost(f"the proxy refused the connection with status {status.decode('latin-1')}")
