"""What the live view shows: one frozen value, so that a view needs no running consumer to be looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from sublet.protocol.shard import Shard


class Phase(StrEnum):
    """What a demo may be at."""

    READ = "data set"
    START = "embedded AWS"
    DEPLOY = "cdk deploy"
    FLOW = "events flow"
    LAST = "last events"
    LEAVE = "workers leave"
    BY_LAMBDA = "Lambda"
    TO_SPARK = "to Spark"
    BY_SPARK = "Spark"
    TO_LAMBDA = "to Lambda"
    PROVE = "proof"
    STOP = "stop"


PLAN = (Phase.READ, Phase.START, Phase.DEPLOY, Phase.FLOW, Phase.LAST, Phase.LEAVE, Phase.PROVE)
"""`make demo`'s phases, in their order."""


@dataclass(frozen=True, slots=True)
class LeaseView:
    """A lease as its row says."""

    owner: str | None
    checkpoint: str
    is_ended: bool


class Part(NamedTuple):
    """Events that one runtime has handled, from when it got the stream until it gave it away."""

    runtime: str
    events: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The demo at one moment. Mappings are by shard id; a shard that is not in one has nothing there yet."""

    elapsed: float = 0
    """Seconds since the start."""
    plan: tuple[Phase, ...] = PLAN
    phase: Phase = Phase.READ
    detail: str = ""
    """What the phase is at."""
    shards: tuple[Shard, ...] = ()
    leases: Mapping[str, LeaseView] = field(default_factory=dict)
    put: Mapping[str, int] = field(default_factory=dict)
    """Events in the stream."""
    handled: Mapping[str, int] = field(default_factory=dict)
    """Events that a handler has stored, of whichever runtime."""
    by_spark: Mapping[str, int] = field(default_factory=dict)
    """Those of them that Spark has."""
    parts: tuple[Part, ...] = ()
    """All that are handled, in the order in which the runtimes had the stream; none if only one ever has it."""
    spark: str = ""
    """What the pipeline on Spark said last."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """Events handled a second, lately."""
    total: int = 0
    """Events that there will be."""
    aggregated: int = 0
    plain: int = 0
    sent_again: int = 0
    dropped: int = 0
    """Events that the consumer dropped by KCL's hash range rule: those that were sent again."""
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

    def has_ended(self, shard: Shard) -> bool:
        """Handled to its end. Its lease may be gone by now: it is cleaned up once its children's are under way."""
        lease = self.leases.get(shard.shard_id)
        if lease is not None:
            return lease.is_ended
        children = (child for child in self.shards if shard.shard_id in child.parent_shard_ids)
        return not shard.is_open and any(child.shard_id in self.leases for child in children)

    def unattended(self) -> list[str]:
        """Shards with events waiting that a tick would have a worker start on at once: free, and their parents ended."""
        listed = {shard.shard_id: shard for shard in self.shards}
        return [
            shard_id
            for shard_id, shard in listed.items()
            if self.waiting(shard_id)
            and not self.has_ended(shard)
            and (shard_id not in self.leases or self.leases[shard_id].owner is None)
            and all(self.has_ended(listed[parent]) for parent in shard.parent_shard_ids & listed.keys())
        ]
