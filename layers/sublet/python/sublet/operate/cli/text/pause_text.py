"""Describes a pause, a drain or a release, for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sublet.command_line.terminal_text import printable
from sublet.decisions.plurals import counted
from sublet.operate.formatting import time_text
from sublet.protocol.control import Order, Pause

if TYPE_CHECKING:
    from sublet.operate.pausing import OrderedPause
    from sublet.protocol.lease import Lease

NAMED_MAX = 3
"""How many leases a line of progress names at most."""


def ordered_lines(application: str, ordered: OrderedPause) -> Iterable[str]:
    """Yields what was ordered and for how many leases, then the leases that are still held, and the pauses that it
    replaces.
    """
    pause = ordered.pause
    if pause.order is Order.RELEASE:
        yield f"{application}: {_released(ordered)}"
        return
    leases = counted(len(ordered.leases), "lease")
    yield f"{application}: {pause.order} of {leases}{_ends(pause)}, {_still_held(ordered.held)}"
    for lease in ordered.held:
        yield f"  {lease.lease_key} by {_owner(lease)}"
    for before in ordered.replaces:
        end = _ends(before) or ", which had no end"
        yield f"  it replaces the {before.order} by {printable(before.by)} since {time_text(before.since)}{end}"


def _ends(pause: Pause) -> str:
    return "" if pause.until is None else f" until {time_text(pause.until)}"


def _released(ordered: OrderedPause) -> str:
    """Says whether the one lease was released."""
    if not ordered.held:
        return f"no worker holds {', '.join(lease.lease_key for lease in ordered.leases)}"
    return "; ".join(f"{_owner(lease)} still holds {lease.lease_key}" for lease in ordered.held)


def ordered_json(application: str, ordered: OrderedPause) -> dict[str, object]:
    pause = ordered.pause
    return {
        "application": application,
        **_pause_json(pause),
        "leases": [lease.lease_key for lease in ordered.leases],
        "held": {lease.lease_key: lease.actual_owner for lease in ordered.held},
        "replaces": [_pause_json(before) for before in ordered.replaces],
    }


def _pause_json(pause: Pause) -> dict[str, object]:
    return {
        "order": pause.order.value,
        "since": pause.since.isoformat(),
        "until": None if pause.until is None else pause.until.isoformat(),
        "by": pause.by,
    }


def progress_text(left: Sequence[Lease]) -> str:
    """Says on standard error what an operator is waiting for."""
    if not left:
        return "every lease is released; waiting for workers that earlier ticks may have sent"
    named = ", ".join(f"{lease.lease_key} by {_owner(lease)}" for lease in left[:NAMED_MAX])
    return f"{_still_held(left)}: {named}{' and others' if len(left) > NAMED_MAX else ''}"


def _still_held(left: Sequence[Lease]) -> str:
    return f"{len(left)} still held" if left else "none held"


def _owner(lease: Lease) -> str:
    return printable(lease.actual_owner or "a worker on its way")
