"""What a schema registry's serializers put before the data: which version of which schema it was written with.

AWS Glue Schema Registry: a header byte (3), a compression byte (0: none, 5: zlib), and the schema version's id, a UUID
of 16 bytes. Confluent: a magic byte (0), and the schema's id, 4 bytes. Before a Protobuf message both say which of the
schema's messages it is.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple
from uuid import UUID

from sublet.errors import PayloadUnreadable
from sublet.payloads.compression import inflated

GLUE_HEADER, GLUE_PLAIN, GLUE_ZLIB = 3, 0, 5
GLUE_BYTES = 18
CONFLUENT_MAGIC, CONFLUENT_BYTES = 0, 5


class Framed(NamedTuple):
    """`version`: Glue's UUID, or Confluent's id in decimal."""

    version: str
    data: bytes


def of_glue(data: bytes) -> Framed:
    """Raises PayloadUnreadable."""
    if len(data) < GLUE_BYTES or data[0] != GLUE_HEADER:
        raise PayloadUnreadable("not framed by Glue Schema Registry: it begins with byte 3 and has 18 bytes of framing")
    if data[1] not in (GLUE_PLAIN, GLUE_ZLIB):
        raise PayloadUnreadable(f"framed by Glue Schema Registry with compression {data[1]}; 0 and 5 (zlib) are known")
    inner = data[GLUE_BYTES:]
    return Framed(str(UUID(bytes=data[2:GLUE_BYTES])), inflated(inner) if data[1] == GLUE_ZLIB else inner)


def for_glue(version: str, data: bytes, *, compress: bool = False) -> bytes:
    framing = bytes((GLUE_HEADER, GLUE_ZLIB if compress else GLUE_PLAIN)) + UUID(version).bytes
    return framing + (zlib.compress(data) if compress else data)


def of_confluent(data: bytes) -> Framed:
    """Raises PayloadUnreadable."""
    if len(data) < CONFLUENT_BYTES or data[0] != CONFLUENT_MAGIC:
        raise PayloadUnreadable("not framed for Confluent's registry: it begins with byte 0 and has 5 bytes of framing")
    version = int.from_bytes(data[1:CONFLUENT_BYTES], signed=True)
    if version < 0:
        raise PayloadUnreadable("not framed for Confluent's registry: an id of a schema is less than 2147483648")
    return Framed(str(version), data[CONFLUENT_BYTES:])


def for_confluent(version: str, data: bytes) -> bytes:
    return bytes((CONFLUENT_MAGIC,)) + int(version).to_bytes(CONFLUENT_BYTES - 1) + data


class IndexedMessage(NamedTuple):
    """A Protobuf message after its index. Glue's index is one number, Confluent's a path through nested messages."""

    path: tuple[int, ...]
    data: bytes


def glue_message(data: bytes) -> IndexedMessage:
    """Raises PayloadUnreadable."""
    index, rest = _number(data)
    return IndexedMessage((index,), rest)


def confluent_message(data: bytes) -> IndexedMessage:
    """Raises PayloadUnreadable. A path of length 0 is short for the first message."""
    length, rest = _zigzag(data)
    if not 0 <= length <= 100:
        raise PayloadUnreadable("framed with a message index that is none")
    path = []
    for _ in range(length):
        step, rest = _zigzag(rest)
        path.append(step)
    return IndexedMessage(tuple(path) or (0,), rest)


def _zigzag(data: bytes) -> tuple[int, bytes]:
    number, rest = _number(data)
    return (number >> 1) ^ -(number & 1), rest


def _number(data: bytes) -> tuple[int, bytes]:
    """A number in Protobuf's variable length."""
    value = 0
    for place, byte in enumerate(data[:10]):
        value |= (byte & 127) << (7 * place)
        if byte < 128:
            return value, data[place + 1 :]
    raise PayloadUnreadable("framed with a message index that does not end")
