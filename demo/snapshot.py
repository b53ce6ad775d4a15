"""What the live view shows, as one frozen value, so that the view needs no running consumer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from sublet.decisions.status.fleet_status import FleetStatus
from sublet.decisions.status.shard_status import ShardStatus
from sublet.protocol.shard import Shard


class Phase(StrEnum):
    """What a demo is doing."""

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
"""The phases of `make demo`, in order."""


class Part(NamedTuple):
    """Events that one runtime has handled, from taking over the stream until giving it away."""

    runtime: str
    events: int


@dataclass(frozen=True)
class Snapshot:
    """The demo at one moment. Mappings are by shard id; a missing shard has nothing yet."""

    elapsed: float = 0
    """Seconds since the start."""
    plan: tuple[Phase, ...] = PLAN
    phase: Phase = Phase.READ
    detail: str = ""
    """The phase's current step."""
    shards: tuple[Shard, ...] = ()
    fleet: FleetStatus | None = None
    """As `sublet status` shows it; None before the first look."""
    put: Mapping[str, int] = field(default_factory=dict)
    """Events in the stream."""
    handled: Mapping[str, int] = field(default_factory=dict)
    """Events that a handler has stored, in any runtime."""
    by_spark: Mapping[str, int] = field(default_factory=dict)
    """Events handled by Spark."""
    parts: tuple[Part, ...] = ()
    """All handled events, in the order of the runtimes; empty if only one runtime ever has the stream."""
    spark: str = ""
    """The latest output of the pipeline on Spark."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """Events handled per second, recently."""
    total: int = 0
    """The final number of events."""
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
    """Events in the demo, the latest last, each with its time."""

    @cached_property
    def leases(self) -> Mapping[str, ShardStatus]:
        """Shards that have a lease."""
        return {} if self.fleet is None else {shard.shard_id: shard for shard in self.fleet.shards}

    @property
    def put_in_all(self) -> int:
        return sum(self.put.values())

    @property
    def handled_in_all(self) -> int:
        return sum(self.handled.values())

    def waiting(self, shard_id: str) -> int:
        """Events put and not yet handled. The two figures are read at different moments, hence never below 0."""
        return max(self.put.get(shard_id, 0) - self.handled.get(shard_id, 0), 0)

    def has_ended(self, shard: Shard) -> bool:
        """True if the shard is handled to its end. Its lease may be gone: it is cleaned up once its children are
        handled.
        """
        lease = self.leases.get(shard.shard_id)
        if lease is not None:
            return lease.is_ended
        children = (child for child in self.shards if shard.shard_id in child.parent_shard_ids)
        return not shard.is_open and any(child.shard_id in self.leases for child in children)

    def unattended(self) -> list[str]:
        """Shards with events waiting for which a tick would start a worker at once: free, with ended parents."""
        listed = {shard.shard_id: shard for shard in self.shards}
        return [
            shard_id
            for shard_id, shard in listed.items()
            if self.waiting(shard_id)
            and not self.has_ended(shard)
            and (shard_id not in self.leases or self.leases[shard_id].owner is None)
            and all(self.has_ended(listed[parent]) for parent in shard.parent_shard_ids & listed.keys())
        ]
