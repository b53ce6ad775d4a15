"""The process's memory: one heap for all threads, and garbage collection that seldom runs."""

from __future__ import annotations

import gc

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


NEW_OBJECTS = 100_000
"""How many new objects trigger a collection of the youngest generation. CPython's own 700 are less than two
aggregates.
"""


def collect_seldom() -> None:
    """Makes collections rare in a process of our own: existing objects are never searched again. Call it first, because
    imports and clients make hundreds of thousands of objects that stay, and again once everything is there.

    User records come in millions and form no cycles: reference counts free them. But CPython counts new objects, and
    with its own threshold it walks everything in flight again and again: two fifths of all CPU on aggregates of small
    records, and of a tick over 10,000 leases. Cycles are still found, in a handler's objects too, only later.
    """
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])
