"""gzip, zlib and zstd around a record's data, recognised by their first bytes, up to a size that a process can bear."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import NamedTuple, Protocol

from sublet.errors import PayloadUnreadable

DECOMPRESSED_MAX = 64 * 2**20
"""Bytes. A record has at most 10 MiB, and a few kilobytes can claim to be gigabytes."""

FIRST_PIECE = 4096
"""Bytes of a member or frame that are decompressed at first; then twice as many, and so on. What is behind its end is
copied, so a record of many members, of which each is some bytes, would otherwise take minutes.
"""

ZSTD_WINDOW_LOG_MAX = 26
"""A zstd frame states how much memory its decompression takes: at most as much as its result may be."""


class Decompressor(Protocol):
    """What the standard library's decompressors have in common."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class Decompressed(NamedTuple):
    """`data`: what was inside, or the data itself. `problem`: why it is not what its first bytes say, if so."""

    data: bytes
    problem: str = ""


def decompressed(data: bytes, limit: int = DECOMPRESSED_MAX) -> Decompressed:
    """Data that only looks compressed by its first bytes, as text or Avro may, comes back as it is, with the problem.
    Raises PayloadUnreadable for more than `limit` bytes, and for zstd without its package.
    """
    name, make = _by_magic(data)
    if make is None:
        return Decompressed(data)
    try:
        return Decompressed(_all_of(data, make, name, limit))
    except PayloadUnreadable:
        raise
    except Exception as fault:  # noqa: BLE001 - zlib.error, ZstdError, EOFError
        return Decompressed(data, f"not {name} either: {fault}")


def inflated(data: bytes, limit: int = DECOMPRESSED_MAX) -> bytes:
    """zlib's format, as in Glue's framing. Raises PayloadUnreadable."""
    try:
        return _all_of(data, zlib.decompressobj, "zlib", limit)
    except (zlib.error, EOFError) as fault:
        raise PayloadUnreadable(f"not zlib, which its framing says: {fault}") from None


def _by_magic(data: bytes) -> tuple[str, Callable[[], Decompressor] | None]:
    head = data[:4]
    if head[:3] == b"\x1f\x8b\x08":
        return "gzip", lambda: zlib.decompressobj(zlib.MAX_WBITS | 16)
    if head == b"\x28\xb5\x2f\xfd":
        return "zstd", _zstd()
    if head[:1] == b"\x78" and len(head) > 1 and int.from_bytes(head[:2]) % 31 == 0:
        return "zlib", zlib.decompressobj
    return "", None


def _zstd() -> Callable[[], Decompressor]:
    try:
        from compression import zstd  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415
    except ImportError:
        try:
            from backports import zstd  # noqa: PLC0415
        except ImportError:
            raise PayloadUnreadable("compressed with zstd: install sublet with its extra payloads") from None
    options = {zstd.DecompressionParameter.window_log_max: ZSTD_WINDOW_LOG_MAX}
    return lambda: zstd.ZstdDecompressor(options=options)  # type: ignore[no-any-return, unused-ignore]


def _all_of(data: bytes, make: Callable[[], Decompressor], name: str, limit: int) -> bytes:
    """Decompresses each member or frame of the data, which gzip and zstd allow to be several."""
    parts: list[bytes] = []
    size = start = 0
    while start < len(data) or not parts:
        one, piece = make(), FIRST_PIECE
        while not one.eof:
            if start >= len(data):
                raise EOFError("it ends before its end")
            parts.append(one.decompress(data[start : start + piece], limit - size + 1))
            start, piece = start + piece, 2 * piece
            size += len(parts[-1])
            if size > limit:
                raise PayloadUnreadable(f"{name}: more than {limit} bytes when decompressed")
        start = min(start, len(data)) - len(one.unused_data)
    return b"".join(parts)
