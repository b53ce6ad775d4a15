"""What the console has seen of an application in the last hour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Sample:
    """One look.

    lag    the largest of any shard; None if it is not known
    rate   handled bytes a second, all shards together; None if no row says
    moves  shards that have another owner than at the look before
    """

    at: datetime
    lag: timedelta | None
    rate: float | None
    moves: int = 0


Hour = tuple[Sample, ...]
"""Oldest first."""


def with_sample(hour: Hour, sample: Sample) -> Hour:
    """Without what is older than an hour, and without what a clock that was set back has left in the future."""
    return (*(each for each in hour if timedelta(0) < sample.at - each.at <= HOUR), sample)


def moves_between(before: Mapping[str, str | None], now: Mapping[str, str | None]) -> int:
    """How many shards have got another owner. Both: owners by shard id."""
    return sum(
        owner is not None and before.get(shard_id) not in (None, owner) for shard_id, owner in now.items()
    )
