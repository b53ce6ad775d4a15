"""Stream records for deaggregation: aggregates as a KPL makes them, and with all kinds of damage.

Most mutations get a new, correct digest, because a wrong digest hides everything else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

from sublet.protocol.aggregation import aggregate
from sublet.protocol.hash_keys import hash_key
from sublet.protocol.kpl_format import DIGEST_SIZE, MAGIC
from sublet.protocol.shard import FULL_RANGE, HASH_KEY_MAX, HashKeyRange

from tests.interop.java_protobuf import varint

KEYS = ("a", "b", "key-7", "é", "\u2028", "\U0001f600", "x" * 256)
ODD_KEYS = (
    b"\xff",
    b"a\xc3",
    b"\xed\xa0\x80",
    b"\xed\xa0",
    b"\xf8\x88\x80\x80\x80",
    b"\xc0\x80",
    b"\xf0\x9f\x98",
    b"",
)
ODD_HASH_KEYS = (
    b"",
    b"-1",
    b"+5",
    b"twelve",
    "\u0661".encode(),
    b"9" * 40,
    b"0" * 60,
    b"1_0",
    b" 1",
    b"\xff",
    b"0x1",
)
ODD_INDEXES = (2, 3, 127, 2**31 - 1, 2**31, 2**32, 2**32 + 1, 2**64 - 1)

KNOWN = tuple(
    bytes.fromhex(found)
    for found in (
        "f3899ac20a01611a0708001a01782200d896a960f15651e886afcc94d36e3b59",
        "f3899ac20a03eda0801a0508001a01780130e3742f03e5d3afb0aeddf04513d2",
    )
)
"""Cases that once differed from Java: a tag without its key, and a surrogate in a key."""


class Case(NamedTuple):
    """A stream record's data, in a shard of that range."""

    data: bytes
    hash_key_range: HashKeyRange


def cases(count: int, chance: Random) -> Iterator[Case]:
    for data in KNOWN:
        yield Case(data, FULL_RANGE)
    for _ in range(count - len(KNOWN)):
        make = chance.choice(KINDS)
        yield Case(make(chance), _range(chance))


def framed(message: bytes) -> bytes:
    return MAGIC + message + hashlib.md5(message, usedforsecurity=False).digest()


def _good(chance: Random) -> bytes:
    return aggregate(
        [
            (
                chance.choice(KEYS),
                chance.choice([None, None, str(chance.randint(0, HASH_KEY_MAX))]),
                chance.randbytes(chance.choice([0, 1, 8, 300])),
            )
            for _ in range(chance.randint(1, 8))
        ]
    )


def _message(chance: Random) -> bytearray:
    return bytearray(_good(chance)[len(MAGIC) : -DIGEST_SIZE])


def _damaged_outside(chance: Random) -> bytes:
    """A flipped bit, a missing end, or extra bytes at the end."""
    data = bytearray(_good(chance))
    match chance.randrange(3):
        case 0:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        case 1:
            del data[chance.randrange(len(data)) :]
        case _:
            data += chance.randbytes(chance.randint(1, 20))
    return bytes(data)


def _damaged_inside(chance: Random) -> bytes:
    """Some bytes of the message changed, removed, doubled or inserted."""
    message = _message(chance)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(message)) if message else 0
        match chance.randrange(4):
            case 0 if message:
                message[at] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, message[at] ^ 1 << chance.randrange(8)])
            case 1:
                del message[at : at + chance.randint(1, 4)]
            case 2:
                message[at:at] = message[at : at + chance.randint(1, 12)]
            case _:
                message[at:at] = chance.randbytes(chance.randint(1, 3))
    return framed(bytes(message))


def _odd_fields(chance: Random) -> bytes:
    """Valid protobuf, with tables and records that no KPL writes."""
    tables = [
        delimited(1, chance.choice([*(key.encode() for key in KEYS), *ODD_KEYS])) for _ in range(chance.randint(0, 3))
    ]
    tables += [
        delimited(2, chance.choice([b"5", str(HASH_KEY_MAX).encode(), *ODD_HASH_KEYS]))
        for _ in range(chance.randint(0, 2))
    ]
    records = [delimited(3, _odd_record(chance)) for _ in range(chance.randint(0, 5))]
    others = [chance.choice([number(9, 1), delimited(15, b"x"), GROUP, b""])]
    parts = [*tables, *records, *others]
    if chance.random() < 0.3:
        chance.shuffle(parts)
    return framed(b"".join(parts))


def _odd_record(chance: Random) -> bytes:
    index = chance.choice([0, 0, 0, 1, 1, *ODD_INDEXES]) if chance.random() < 0.3 else chance.randrange(2)
    fields = [number(1, index), delimited(3, chance.randbytes(chance.randint(0, 4)))]
    if chance.random() < 0.3:
        fields.append(number(2, chance.choice([0, 0, 1, *ODD_INDEXES])))
    if chance.random() < 0.2:
        fields.append(chance.choice(ODD_FIELDS))
    if chance.random() < 0.1:
        del fields[chance.randrange(2)]
    if chance.random() < 0.2:
        chance.shuffle(fields)
    return b"".join(fields)


def _nested(chance: Random) -> bytes:
    return aggregate([("a", None, _good(chance)), ("b", None, b"x")])


def _noise(chance: Random) -> bytes:
    junk = chance.randbytes(chance.randint(0, 40))
    return chance.choice([junk, MAGIC + junk, framed(junk), framed(b""), MAGIC[:3] + junk])


def _range(chance: Random) -> HashKeyRange:
    """Mostly everything; otherwise a half, or a range that ends at a key or next to it."""
    match chance.randrange(5):
        case 0:
            return HashKeyRange(0, HASH_KEY_MAX // 2)
        case 1:
            end = hash_key(chance.choice(KEYS), None) + chance.randint(-1, 1)
            return HashKeyRange(0, end)
        case _:
            return FULL_RANGE


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def delimited(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content


GROUP = b"\x3b" + delimited(1, b"x") + b"\x3c"
ODD_FIELDS = (
    delimited(4, b""),
    delimited(4, delimited(1, b"t")),
    delimited(4, delimited(2, b"v")),
    delimited(4, delimited(1, b"t") + delimited(2, b"v")),
    number(4, 7),
    number(3, 7),
    delimited(1, b"\x00\x01"),
    number(1, 0),
    delimited(3, b"again"),
    number(9, 1),
    GROUP,
    varint(2**32 + (9 << 3)) + b"\x01",
    varint(9 << 3 | 2) + varint(2**32 + 1) + b"x",
    b"\x08\x80\x00",
)
KINDS: tuple[Callable[[Random], bytes], ...] = (
    *(_good, _good, _damaged_outside, _damaged_inside, _damaged_inside, _damaged_inside),
    *(_odd_fields, _odd_fields, _odd_fields, _nested, _noise),
)
