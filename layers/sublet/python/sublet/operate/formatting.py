"""Shows moments and durations as an operator reads them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sublet.errors import BatchItemsFailed, HandlerOverdue
from sublet.protocol.handler_failure import HandlerFailure


def age_text(age: timedelta) -> str:
    seconds = max(0, round(age.total_seconds()))
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def lag_text(lag: timedelta | None, *, is_at_least: bool) -> str:
    """`>=41m`: a record has waited for 41 minutes, and perhaps others for longer."""
    if lag is None:
        return "-"
    return f"{'>=' if is_at_least else ''}{age_text(lag)}"


def time_text(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


_OUR_OWN = {
    HandlerOverdue.__name__: "does not return in time",
    BatchItemsFailed.__name__: "returns item failures",
}


def failure_text(failing: HandlerFailure) -> str:
    what = _OUR_OWN.get(failing.error, f"raises {failing.error}")
    return f"handler {what}, attempt {failing.attempt:,}, since {time_text(failing.since)}"


MIDDLE = "..."


def shortened(text: str, width: int) -> str:
    """Cuts a text in its middle, because the names of workers mostly differ at the end."""
    if len(text) <= width:
        return text
    room = max(width - len(MIDDLE), 2)
    return text[: room // 2] + MIDDLE + text[len(text) - (room - room // 2) :]
