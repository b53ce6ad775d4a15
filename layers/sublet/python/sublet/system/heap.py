"""Where the C library takes memory from in a process that consumes."""

from __future__ import annotations

_ARENA_MAX = -8
"""malloc.h: M_ARENA_MAX."""


def use_one_heap() -> bool:
    """For a process of our own, before it has threads; whether the C library can.

    glibc gives threads heaps of their own, and what one has freed the others cannot use. Replies of 14 MB come on a thread for
    each lease: ten leases held twice the memory that was in use, 570 MiB instead of 270. Little is lost by it: whoever
    allocates holds the interpreter's lock, nearly always.
    """
    import ctypes  # noqa: PLC0415 -- 2 ms, for processes that consume alone

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library (musl, macOS), or Windows
        return False
    return bool(mallopt(_ARENA_MAX, 1))
