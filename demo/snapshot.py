"""What the live view shows: one frozen value, so that a view needs no running consumer to be looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sublet.protocol.shard import Shard


@dataclass(frozen=True, slots=True)
class LeaseView:
    """A lease as its row says."""

    owner: str | None
    checkpoint: str
    is_ended: bool


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The demo at one moment. Mappings are by shard id; a shard that is not in one has nothing there yet."""

    elapsed: float = 0
    """Seconds since the start."""
    phase: str = ""
    shards: tuple[Shard, ...] = ()
    leases: Mapping[str, LeaseView] = field(default_factory=dict)
    put: Mapping[str, int] = field(default_factory=dict)
    """Events in the stream."""
    handled: Mapping[str, int] = field(default_factory=dict)
    """Events that the handler has stored."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """Events handled a second, lately."""
    total: int = 0
    """Events that there will be."""
    aggregated: int = 0
    plain: int = 0
    sent_again: int = 0
    redelivered: int = 0
    ticks: int = 0
    executions: int = 0
    executions_running: int = 0
    windows: int = 0
    windows_running: int = 0
    happenings: tuple[str, ...] = ()
    """What has happened, the latest last, each with its time."""

    @property
    def put_in_all(self) -> int:
        return sum(self.put.values())

    @property
    def handled_in_all(self) -> int:
        return sum(self.handled.values())

    def waiting(self, shard_id: str) -> int:
        """Events put and not yet handled. Both figures are read a moment apart: never below 0."""
        return max(self.put.get(shard_id, 0) - self.handled.get(shard_id, 0), 0)
