"""How often CPython searches for reference cycles in a consuming process."""

from __future__ import annotations

import gc

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
