"""Limits the C library's heaps in a consuming process."""

from __future__ import annotations

_ARENA_MAX = -8
"""malloc.h: M_ARENA_MAX."""


def use_one_heap() -> bool:
    """For a process of our own, before it starts threads. False if the C library has no such option.

    glibc gives threads heaps of their own, and memory that one thread has freed is not reused by others. Replies of 14
    MB come on one thread per lease: ten leases held twice the memory in use, 570 MiB instead of 270. It costs little,
    since an allocating thread nearly always holds the interpreter's lock.
    """
    import ctypes  # noqa: PLC0415 -- 2 ms, only for consuming processes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library (musl, macOS), or Windows
        return False
    return bool(mallopt(_ARENA_MAX, 1))
