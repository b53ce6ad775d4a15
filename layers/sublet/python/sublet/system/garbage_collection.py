"""How often CPython looks for reference cycles in a process that consumes."""

from __future__ import annotations

import gc

NEW_OBJECTS = 100_000
"""Between two looks at the youngest; CPython's own 700 are less than two aggregates."""


def collect_seldom() -> None:
    """For a process of our own, once everything is imported: what is there now stays, and is not looked at again.

    User records come in their millions and make no cycles: reference counts free them. But CPython counts what is
    new, and with its own threshold it walks everything in flight again and again: two fifths of all CPU on aggregates
    of small records, and of a tick over 10,000 leases. Cycles are still found, in a handler's objects too; only later.
    """
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])
