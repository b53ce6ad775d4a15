"""The event stream's encoding, against botocore's reader and against damage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zlib import crc32

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st
from sublet.protocol.event_stream import MessageReader, StreamDamaged, message

HEADERS = {
    ":message-type": "event",
    ":event-type": "SubscribeToShardEvent",
    ":content-type": "application/json",
}
TYPED_HEADERS = bytes.fromhex(
    "02 7431 00"
    "02 7432 01"
    "02 7433 02 ff"
    "02 7434 03 0102"
    "02 7435 04 01020304"
    "02 7436 05 0102030405060708"
    "02 7437 06 0003 616263"
    "02 7438 07 0003 646566"
    "02 7439 08 0102030405060708"
    "02 7461 09" + "00" * 16
)


@given(st.lists(st.binary(max_size=300), max_size=5), st.integers(1, 400))
def test_messages_come_whole_and_in_order_however_they_are_cut(payloads: list[bytes], piece: int) -> None:
    sent, reader = b"".join(message(HEADERS, payload) for payload in payloads), MessageReader()
    headers: list[Mapping[str, str]] = []
    received: list[bytes] = []
    for at in range(0, len(sent), piece):
        reader.feed(sent[at : at + piece])
        while (came := reader.next()) is not None:
            headers.append(came.headers)
            received.append(bytes(came.payload))
    assert received == payloads
    assert headers == [HEADERS] * len(payloads)
    assert not reader.is_begun


def test_botocore_reads_the_same() -> None:
    buffer = EventStreamBuffer()
    buffer.add_data(message(HEADERS, b"{}"))
    came: Any
    (came,) = buffer
    assert (came.headers, came.payload) == (HEADERS, b"{}")


def test_headers_of_every_type_are_passed_over() -> None:
    reader = MessageReader()
    reader.feed(_with_headers(TYPED_HEADERS))
    came = reader.next()
    assert came is not None
    assert came.headers == {"t8": "def"}


def _with_headers(encoded: bytes) -> bytes:
    lengths = (16 + len(encoded)).to_bytes(4, "big") + len(encoded).to_bytes(4, "big")
    whole = lengths + crc32(lengths).to_bytes(4, "big") + encoded
    return whole + crc32(whole).to_bytes(4, "big")


@pytest.mark.parametrize("at", [0, 5, 9, 14, 40, -1])
def test_a_changed_byte_is_noticed(at: int) -> None:
    sent = bytearray(message(HEADERS, b"payload"))
    sent[at] ^= 1
    reader = MessageReader()
    reader.feed(bytes(sent))
    with pytest.raises(StreamDamaged):
        reader.next()


@pytest.mark.parametrize(
    "encoded", [b"\x05ab", b"\x01a\x07\x00", b"\x01a\x07\x00\x09b", b"\x01a\x63\x00\x00", b"\x01\xff\x00"]
)
def test_headers_that_cannot_be_read_are_damage(encoded: bytes) -> None:
    reader = MessageReader()
    reader.feed(_with_headers(encoded))
    with pytest.raises(StreamDamaged):
        reader.next()


def test_a_length_that_no_message_has_is_damage_at_once() -> None:
    """It is not waited for: a connection that has lost its place would otherwise be silent for ever."""
    lengths = (2**31).to_bytes(4, "big") + bytes(4)
    reader = MessageReader()
    reader.feed(lengths + crc32(lengths).to_bytes(4, "big"))
    with pytest.raises(StreamDamaged):
        reader.next()
