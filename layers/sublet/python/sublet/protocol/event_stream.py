"""AWS' event stream encoding (application/vnd.amazon.eventstream), in which SubscribeToShard sends its events.

A message is: its length and its headers' length (4 bytes each), their CRC32, the headers, the payload, and the CRC32 of
all that. Public source: "Event stream encoding" in Amazon Transcribe's and Amazon Lex' developer guides; botocore's
eventstream.py is another reader of it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple
from zlib import crc32

_PRELUDE = struct.Struct(">III")
_CRC = struct.Struct(">I")
_SHORT = struct.Struct(">H")
_FIXED = 16
"""Bytes of a message without headers and payload."""

_BYTES, _TEXT = 6, 7
_WIDTHS = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Header types of a fixed width: true, false, byte, short, integer, long, timestamp, UUID."""

MESSAGE_MAX = 64 * 2**20
"""A length above this is damage. botocore accepts messages of at most 24 MiB; one record of 10 MiB takes 14 MiB as
base64.
"""


class StreamDamaged(ValueError):
    """The bytes are not a message: they were cut or changed on the way. What follows cannot be read either."""


class EventMessage(NamedTuple):
    """One message. Only text headers are kept. Two of them, `:message-type` and `:event-type`, say what the message
    is.
    """

    headers: Mapping[str, str]
    payload: memoryview


class MessageReader:
    """Takes bytes as they come, and returns messages. Bytes stay in memory until their message is taken."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._at = 0
        """Where the next message begins in the first part."""
        self._size = 0
        """Bytes from there on."""
        self._needed = _PRELUDE.size
        """No message is complete before this many bytes have come. So the parts of a large message are joined once, at
        its end.
        """

    def feed(self, data: bytes) -> None:
        if data:
            self._parts.append(data)
            self._size += len(data)

    @property
    def is_begun(self) -> bool:
        """Whether there are bytes of a message that has not been taken."""
        return self._size > 0

    def next(self) -> EventMessage | None:
        """The next message, or None until more bytes are fed. Raises StreamDamaged."""
        if self._size < self._needed:
            return None
        come = self._joined()
        total, headers_length, checksum = _PRELUDE.unpack_from(come, self._at)
        if crc32(come[self._at : self._at + 8]) != checksum or not _FIXED + headers_length <= total <= MESSAGE_MAX:
            raise StreamDamaged("the length of a message of the event stream does not match its checksum")
        if self._size < total:
            self._needed = total
            return None
        whole = memoryview(come)[self._at : self._at + total]
        self._take(total)
        if crc32(whole[:-4]) != _CRC.unpack_from(whole, total - 4)[0]:
            raise StreamDamaged("a message of the event stream does not match its checksum")
        end = _PRELUDE.size + headers_length
        return EventMessage(_headers(bytes(whole[_PRELUDE.size : end])), whole[end:-4])

    def _joined(self) -> bytes:
        first, *rest = self._parts
        if rest:
            first = b"".join((memoryview(first)[self._at :], *rest))
            self._parts, self._at = [first], 0
        return first

    def _take(self, size: int) -> None:
        self._at, self._size, self._needed = self._at + size, self._size - size, _PRELUDE.size
        if not self._size:
            self._parts, self._at = [], 0


def _headers(data: bytes) -> dict[str, str]:
    found, at = {}, 0
    try:
        while at < len(data):
            begin = at + 1 + data[at]
            name, kind, at = data[at + 1 : begin].decode(), data[begin], begin + 1
            if kind in (_BYTES, _TEXT):
                (length,) = _SHORT.unpack_from(data, at)
                at += 2 + length
                if kind == _TEXT:
                    found[name] = data[at - length : at].decode()
            else:
                at += _WIDTHS[kind]
    except (LookupError, ValueError, struct.error) as problem:
        raise StreamDamaged(f"the headers of a message of the event stream cannot be read: {problem}") from problem
    if at != len(data):
        raise StreamDamaged("the headers of a message of the event stream are longer than it says")
    return found


def message(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Encodes a message as a server sends it."""
    encoded = b"".join(
        bytes([len(name)]) + name.encode() + bytes([_TEXT]) + _SHORT.pack(len(value)) + value.encode()
        for name, value in headers.items()
    )
    lengths = _PRELUDE.pack(_FIXED + len(encoded) + len(payload), len(encoded), 0)[:8]
    whole = lengths + _CRC.pack(crc32(lengths)) + encoded + payload
    return whole + _CRC.pack(crc32(whole))
