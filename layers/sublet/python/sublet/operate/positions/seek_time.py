"""A place in time to which a seek goes or at which a peek begins."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sublet.errors import SeekRefused, SettingsError
from sublet.settings.text import parse_duration, parse_moment

EARLIEST, LATEST = "earliest", "latest"
AS_KINESIS_SAYS = {"trim_horizon": EARLIEST}


@dataclass(frozen=True, slots=True)
class SeekTime:
    """A time to seek to. `at`: the moment, or None for the earliest record. `ago`: how long before now, instead of
    `at`.
    """

    text: str
    at: datetime | None = None
    ago: timedelta | None = None

    def moment(self, now: datetime) -> datetime | None:
        """`now`: the service's time. Raises SeekRefused for a later time: Kinesis opens no shard there, and a search
        for it would read a busy shard for as long as records come.
        """
        if self.at is not None and self.at > now:
            raise SeekRefused(
                f"{self.text} is in the future: the stream's time is {now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
            )
        return self.at if self.ago is None else now - self.ago


def place(text: str) -> SeekTime:
    """Parses a time. Raises SeekRefused, which says what is allowed."""
    name = AS_KINESIS_SAYS.get(text.lower(), text.lower())
    if name == EARLIEST:
        return SeekTime(name)
    if name == LATEST:
        return SeekTime(name, ago=timedelta(0))
    try:
        return SeekTime(text, ago=parse_duration("position", text))
    except SettingsError:
        pass
    moment = parse_moment(text)
    if moment is None:
        raise SeekRefused(
            f"{text!r} is not a position: give {EARLIEST}, {LATEST}, a time with its zone such as "
            "2026-11-22T08:00:00Z, or how long ago, such as 90m"
        )
    return SeekTime(text, at=moment)
