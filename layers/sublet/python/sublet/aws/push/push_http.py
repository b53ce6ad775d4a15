"""Parses one long HTTP reply, over HTTP/1.1 or HTTP/2: bytes in, bytes out, no socket.

AWS declares SubscribeToShard for HTTP/2, which its endpoints offer, and does not promise it over HTTP/1.1. HTTP/1.1 is
used for endpoints without HTTP/2, such as an emulator's or some proxies.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import SplitResult

from sublet.aws.kinesis.repeated_call import host_of

if TYPE_CHECKING:
    from h2.connection import H2Connection

WINDOW = 2**20
"""HTTP/2: how many bytes the service may send ahead of the reader."""

_HEAD_MAX = 2**16
_OF_THE_CONNECTION = frozenset({"connection", "host", "keep-alive", "transfer-encoding", "upgrade"})


class ReplyDamaged(ValueError):
    """The bytes that came are not HTTP."""


class ResponseHead(NamedTuple):
    """The beginning of a reply. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]


class Request(NamedTuple):
    """A signed request."""

    url: SplitResult
    headers: Mapping[str, str]
    body: bytes


class Reply(Protocol):
    """One reply, parsed as its bytes come."""

    head: ResponseHead | None
    """None until it has come."""
    is_over: bool
    """True if the body is complete, or the service has ended it."""

    def feed(self, data: bytes) -> bytes:
        """Takes bytes from the socket, and returns the part of the body in them. Raises ReplyDamaged."""

    def to_send(self) -> bytes:
        """Bytes to send to the service: first the request, later acknowledgements."""


class Http1Reply:
    """One exchange over HTTP/1.1, on a connection of its own."""

    def __init__(self, request: Request) -> None:
        lines = [
            f"POST {request.url.path or '/'} HTTP/1.1",
            f"host: {host_of(request.url)}",
            *(f"{name}: {value}" for name, value in request.headers.items() if name.lower() != "host"),
        ]
        self._unsent = "\r\n".join([*lines, "", ""]).encode("latin-1") + request.body
        self._unread = bytearray()
        self._is_chunked = False
        self._left: int | None = None
        """Bytes of the body, or of the chunk, that are still to come. None: unknown, or between two chunks."""
        self.head: ResponseHead | None = None
        self.is_over = False

    def to_send(self) -> bytes:
        unsent, self._unsent = self._unsent, b""
        return unsent

    def feed(self, data: bytes) -> bytes:
        if self._is_chunked and self._left is not None and not self._unread and len(data) < self._left:
            self._left -= len(data)
            return data  # the middle of a chunk, without a copy: nearly all bytes of a large event
        self._unread += data
        while self.head is None:
            if not self._read_head():
                return b""
        return self._chunks() if self._is_chunked else self._plain()

    def _read_head(self) -> bool:
        """Reads a whole head, if there is one; that of an interim reply is passed over."""
        end = self._unread.find(b"\r\n\r\n")
        if end < 0:
            if len(self._unread) > _HEAD_MAX:
                raise ReplyDamaged(f"{_HEAD_MAX} bytes of a reply without the end of its headers")
            return False
        first, *lines = self._unread[:end].decode("latin-1").split("\r\n")
        del self._unread[: end + 4]
        version, _, rest = first.partition(" ")
        status = rest[:3]
        if not version.startswith("HTTP/1.") or not status.isdecimal():
            raise ReplyDamaged("the reply does not begin with HTTP/1.1 and a status")
        if HTTPStatus.CONTINUE <= int(status) < HTTPStatus.OK:
            return True
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self.head = ResponseHead(int(status), headers)
        self._is_chunked = "chunked" in headers.get("transfer-encoding", "").lower()
        length = headers.get("content-length", "")
        self._left = int(length) if length.isdecimal() and not self._is_chunked else None
        return True

    def _plain(self) -> bytes:
        body = bytes(self._unread)
        self._unread.clear()
        if self._left is not None:
            self._left -= len(body)
            self.is_over = self._left <= 0
        return body

    def _chunks(self) -> bytes:
        parts: list[bytes] = []
        while self._unread and not self.is_over:
            if self._left is None:
                if not self._begin_chunk():
                    break
                continue
            take = min(self._left, len(self._unread))
            parts.append(bytes(self._unread[:take]))
            del self._unread[:take]
            self._left = self._left - take or None
        return b"".join(parts)

    def _begin_chunk(self) -> bool:
        """Read a chunk's length, with the line end of the chunk before it."""
        begin = 2 if self._unread.startswith(b"\r\n") else 0
        end = self._unread.find(b"\r\n", begin)
        if end < 0:
            if len(self._unread) > _HEAD_MAX:
                raise ReplyDamaged(f"{_HEAD_MAX} bytes of a chunked reply without a length")
            return False
        text = bytes(self._unread[begin:end]).partition(b";")[0]
        del self._unread[: end + 2]
        try:
            self._left = int(text, 16)
        except ValueError as problem:
            raise ReplyDamaged("a chunk of the reply has no length") from problem
        self.is_over = self._left == 0
        return True


class Http2Reply:
    """One exchange over HTTP/2. It has a connection of its own, so that flow control stops only this shard's sender."""

    def __init__(self, request: Request) -> None:
        from h2.config import H2Configuration  # noqa: PLC0415 - only a reader by push needs it
        from h2.connection import H2Connection  # noqa: PLC0415
        from h2.settings import SettingCodes, Settings  # noqa: PLC0415

        self.head: ResponseHead | None = None
        self.is_over = False
        self._http: H2Connection = H2Connection(H2Configuration(client_side=True, header_encoding="latin-1"))
        self._http.local_settings = Settings(
            client=True,
            initial_values={SettingCodes.INITIAL_WINDOW_SIZE: WINDOW, SettingCodes.ENABLE_PUSH: 0},
        )
        self._http.initiate_connection()
        self._http.increment_flow_control_window(WINDOW)
        self._stream = self._http.get_next_available_stream_id()
        self._unacknowledged = 0
        url = request.url
        fields = [
            (":method", "POST"),
            (":scheme", url.scheme),
            (":authority", host_of(url)),
            (":path", url.path or "/"),
            *(
                (name.lower(), value)
                for name, value in request.headers.items()
                if name.lower() not in _OF_THE_CONNECTION
            ),
        ]
        self._http.send_headers(self._stream, fields)
        self._http.send_data(self._stream, request.body, end_stream=True)

    def to_send(self) -> bytes:
        unsent: bytes = self._http.data_to_send()
        return unsent

    def feed(self, data: bytes) -> bytes:
        from h2.events import (  # noqa: PLC0415
            ConnectionTerminated,
            DataReceived,
            ResponseReceived,
            StreamEnded,
            StreamReset,
        )
        from h2.exceptions import ProtocolError  # noqa: PLC0415

        parts: list[bytes] = []
        try:
            for event in self._http.receive_data(data):
                if isinstance(event, DataReceived):
                    parts.append(event.data or b"")
                    self._acknowledge(event.flow_controlled_length or 0)
                elif isinstance(event, ResponseReceived):
                    headers = {str(name): str(value) for name, value in event.headers or ()}
                    self.head = ResponseHead(int(headers[":status"]), headers)
                elif isinstance(event, (StreamEnded, StreamReset, ConnectionTerminated)):
                    self.is_over = True
        except ProtocolError as problem:
            raise ReplyDamaged(f"not HTTP/2: {problem}") from problem
        return b"".join(parts)

    def _acknowledge(self, length: int) -> None:
        """Return what was read to the sender's window, a quarter of it at a time."""
        self._unacknowledged += length
        if self._unacknowledged >= WINDOW // 4 and not self.is_over:
            self._http.acknowledge_received_data(self._unacknowledged, self._stream)
            self._unacknowledged = 0
