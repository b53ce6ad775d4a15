"""Serves a Kinesis whose pages cost the most memory: `python -m benchmarks.hostile_server PORT`.

Each stream has as many shards as leases need, all alike: a few equal pages from the trim horizon, then an empty one
at the tip. A page is at most 10 MB, as in the service. Aggregates are written byte by byte, because the library's own
writer needs more memory than its reader; every key is in the leases' range (see `benchmarks.memory`).
"""

from __future__ import annotations

import hashlib
import json
import sys
from base64 import b64encode
from collections.abc import Callable
from functools import cache
from http.server import ThreadingHTTPServer
from itertools import count
from random import Random
from typing import Any, NamedTuple

from sublet.protocol.kpl_format import MAGIC, OVERHEAD

from benchmarks.replay_server import ARRIVED, FIRST_SEQUENCE_NUMBER, HOST, Refused, Requests

PAGE = 10 * 2**20
AGGREGATE = 51_200
PAGES = 3
KEY = "key"


class Hostile(NamedTuple):
    """Pages of one kind: how a page's records are made, and how many user records a page has."""

    records: Callable[[], list[bytes]]
    user_records: int


def _delimited(field: int, content: bytes) -> bytes:
    return bytes([field << 3 | 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _aggregate(*message: bytes) -> bytes:
    payload = b"".join(message)
    return MAGIC + payload + hashlib.md5(payload, usedforsecurity=False).digest()


def _row(data: bytes, key: int = 0, explicit: bytes = b"") -> bytes:
    return _delimited(3, b"\x08" + _varint(key) + explicit + _delimited(3, data))


TABLE = _delimited(1, KEY.encode())


def _aggregate_of(size: int, row: bytes) -> tuple[bytes, int]:
    """Makes an aggregate of as many copies of the row as fit into `size` bytes."""
    rows = (size - OVERHEAD - len(TABLE)) // len(row)
    return _aggregate(TABLE, row * rows), rows


def _aggregates(size: int, data: bytes) -> Hostile:
    """A page full of equal aggregates of about `size` bytes."""
    aggregate, rows = _aggregate_of(size, _row(data))
    number = PAGE // len(aggregate)
    return Hostile(lambda: [aggregate] * number, rows * number)


def _a_key_each() -> tuple[bytes, int]:
    """Many user records, each with a short key of its own."""
    rows = PAGE // 19
    table = b"".join(_delimited(1, b"%06x" % n) for n in range(rows))
    return _aggregate(table, *(_row(b"", n) for n in range(rows))), rows


def _an_explicit_hash_key_each() -> tuple[bytes, int]:
    rows = PAGE // 56
    table = b"".join(_delimited(2, b"%038d" % n) for n in range(rows))
    return _aggregate(TABLE, table, *(_row(b"x", 0, b"\x10" + _varint(n)) for n in range(rows))), rows


def _unused_keys() -> tuple[bytes, int]:
    """A table of two million unused keys, and one user record."""
    table = b"".join(_delimited(1, b"%03x" % (n % 4096)) for n in range(PAGE // 5 - 20))
    return _aggregate(table, _row(b"x")), 1


def _tags() -> tuple[bytes, int]:
    tag = _delimited(4, _delimited(1, b"t") + _delimited(2, b"v"))
    rows = 10
    row = _delimited(3, b"\x08\x00" + _delimited(3, b"x") + tag * ((PAGE - 1000) // rows // len(tag)))
    return _aggregate(TABLE, row * rows), rows


def _empty() -> Hostile:
    """Aggregates without user records."""
    return Hostile(lambda: [_aggregate(TABLE)] * 10_000, 0)


def _damaged() -> tuple[bytes, int]:
    """Makes an aggregate of as many user records as fit, the last of which has an invalid key index: it is one plain
    record.
    """
    row = _row(b"")
    return _aggregate(TABLE, row * ((PAGE - 100) // len(row)), _row(b"", 7)), 1


def _one(make: Callable[[], tuple[bytes, int]]) -> Hostile:
    kept = cache(make)
    return Hostile(lambda: [kept()[0]], kept()[1])


STREAMS: dict[str, Callable[[], Hostile]] = {
    "10,000 plain records of 1 KB": lambda: Hostile(lambda: [Random(n).randbytes(1000) for n in range(10_000)], 10_000),
    "10,000 plain records of 1 byte": lambda: Hostile(lambda: [b"x"] * 10_000, 10_000),
    "one plain record of 10 MB": lambda: Hostile(lambda: [Random(1).randbytes(PAGE)], 1),
    "aggregates of 50 KB, 100 bytes each": lambda: _aggregates(AGGREGATE, Random(1).randbytes(100)),
    "aggregates of 50 KB, 1 byte each": lambda: _aggregates(AGGREGATE, b"x"),
    "aggregates of 1 MB, 1 byte each": lambda: _aggregates(2**20, b"x"),
    "one aggregate of 10 MB, 1 KB each": lambda: _aggregates(PAGE, Random(1).randbytes(1000)),
    "one aggregate of 10 MB, 1 byte each": lambda: _aggregates(PAGE, b"x"),
    "one aggregate of 10 MB, empty user records": lambda: _aggregates(PAGE, b""),
    "one aggregate of 10 MB, a key each": lambda: _one(_a_key_each),
    "one aggregate of 10 MB, an explicit hash key each": lambda: _one(_an_explicit_hash_key_each),
    "one aggregate of 10 MB, all unused keys": lambda: _one(_unused_keys),
    "one aggregate of 10 MB, all tags": lambda: _one(_tags),
    "one aggregate of 10 MB, its last index wrong": lambda: _one(_damaged),
    "10,000 aggregates of no user records": _empty,
}
NAMES = list(STREAMS)


@cache
def hostile(name: str) -> Hostile:
    return STREAMS[name]()


class Replay:
    """A stream's name is its number in STREAMS."""

    def __init__(self) -> None:
        self._body: tuple[str, bytes] = ("", b"")
        self._numbers = count(1)

    def reply(self, operation: str, request: dict[str, Any]) -> bytes:
        match operation:
            case "GetShardIterator":
                return json.dumps({"ShardIterator": _iterator(request["StreamName"], 0)}).encode()
            case "GetRecords":
                name, page, _ = request["ShardIterator"].split("/")
                return self._page(name, int(page))
            case _:
                raise Refused(f"{operation} is not served")

    def _page(self, name: str, page: int) -> bytes:
        is_last = page == PAGES
        behind = 0 if page >= PAGES - 1 else 1000
        head = {"NextShardIterator": _iterator(name, page + (not is_last)), "MillisBehindLatest": behind}
        records = b"[]" if is_last else self._records(name, page)
        return json.dumps(head).encode()[:-1] + b',"Records":' + records + b"}"

    def _records(self, name: str, page: int) -> bytes:
        """Keeps one at a time: 14 MB."""
        known = f"{name}/{page}"
        if self._body[0] != known:
            first = FIRST_SEQUENCE_NUMBER + page * 10_000
            records = [
                {
                    "SequenceNumber": str(first + number),
                    "ApproximateArrivalTimestamp": ARRIVED,
                    "Data": b64encode(data).decode(),
                    "PartitionKey": KEY,
                }
                for number, data in enumerate(hostile(NAMES[int(name)]).records())
            ]
            self._body = (known, json.dumps(records, separators=(",", ":")).encode())
        return self._body[1]


def _iterator(name: str, page: int) -> str:
    """Makes an iterator as long as a real one."""
    return f"{name}/{page}/".ljust(200, "x")


def main(port: int) -> None:
    Requests.replay = Replay()
    ThreadingHTTPServer((HOST, port), Requests).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]))
