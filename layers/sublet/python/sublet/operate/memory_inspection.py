"""The Inspection port without a network: it gives the answers that a test sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sublet.errors import CheckRefused
from sublet.operate.rules.examination import (
    DeployedAlarm,
    Executions,
    QuotaUsage,
    RegisteredConsumer,
    Subscribers,
    ThrottledCounts,
    Volume,
)
from sublet.operate.rules.last_hour import RecordedHour
from sublet.operate.rules.role_needs import DeployedRoles, PermissionNeed
from sublet.operate.rules.set_aside_waiting import SetAsideBatches, SetAsideWaiting

NOTHING, NONE_REFUSED, UNUSED = Volume(0, 0), ThrottledCounts(0, 0), QuotaUsage(0, 1000)
NOTHING_RECORDED = RecordedHour()


@dataclass(slots=True)
class MemoryInspection:
    """`refuses`: names of methods that raise CheckRefused. `roles_lack`: missing actions by role. `streams`: the
    inspections of single streams, by name, in an application of several.
    """

    volume: Volume = NOTHING
    by_shard: Mapping[str, Volume] = field(default_factory=dict)
    recorded: RecordedHour = NOTHING_RECORDED
    lags_of: Mapping[str | None, Mapping[datetime, timedelta]] = field(default_factory=dict)
    refused: ThrottledCounts = NONE_REFUSED
    lacks_reads: Sequence[str] = ()
    lacks_writes: Sequence[str] = ()
    roles: DeployedRoles | None = None
    roles_lack: Mapping[str, frozenset[str]] = field(default_factory=dict)
    deployed_alarms: Sequence[DeployedAlarm] = ()
    topics: Mapping[str, Subscribers] = field(default_factory=dict)
    registered: Sequence[RegisteredConsumer] = ()
    started: Executions | None = None
    used: QuotaUsage = UNUSED
    kept: Mapping[str, SetAsideWaiting] = field(default_factory=dict)
    kept_batches: SetAsideBatches | None = None
    refuses: frozenset[str] = frozenset()
    streams: Mapping[str, MemoryInspection] = field(default_factory=dict)

    def of_stream(self, stream: str, arn: str) -> MemoryInspection:  # noqa: ARG002 - a name is enough in memory
        return self.streams.get(stream, self)

    def incoming(self, over: timedelta) -> Volume:  # noqa: ARG002 - the same at all times
        self._check("incoming")
        return self.volume

    def incoming_by_shard(
        self,
        shard_ids: Sequence[str],
        over: timedelta,  # noqa: ARG002 - the same at all times
    ) -> Mapping[str, Volume]:
        self._check("incoming_by_shard")
        return {shard_id: self.by_shard[shard_id] for shard_id in shard_ids if shard_id in self.by_shard}

    def last_hour(self) -> RecordedHour:
        self._check("last_hour")
        return self.recorded

    def lags(
        self,
        over: timedelta,  # noqa: ARG002 - the same at all times
        each: timedelta,  # noqa: ARG002
        lease_key: str | None = None,
        stream: str | None = None,
    ) -> Mapping[datetime, timedelta]:
        self._check("lags")
        return self.lags_of.get(lease_key or stream, {})

    def throttled(self, over: timedelta) -> ThrottledCounts:  # noqa: ARG002 - the same at all times
        self._check("throttled")
        return self.refused

    def denied_reads(self, shard_id: str) -> Sequence[str]:  # noqa: ARG002 - equal for all shards
        self._check("denied_reads")
        return self.lacks_reads

    def denied_writes(self) -> Sequence[str]:
        self._check("denied_writes")
        return self.lacks_writes

    def deployed_roles(self) -> DeployedRoles | None:
        self._check("deployed_roles")
        return self.roles

    def denied_to(self, role: str, needs: Sequence[PermissionNeed]) -> Sequence[str]:
        self._check("denied_to")
        lacks = self.roles_lack.get(role, frozenset())
        return [f"{action} on {need.resource}" for need in needs for action in need.actions if action in lacks]

    def alarms(self) -> Sequence[DeployedAlarm]:
        self._check("alarms")
        return self.deployed_alarms

    def subscribers(self, topic_arn: str) -> Subscribers:
        self._check("subscribers")
        return self.topics.get(topic_arn, Subscribers(1))

    def consumers(self) -> Sequence[RegisteredConsumer]:
        self._check("consumers")
        return self.registered

    def executions(self) -> Executions | None:
        self._check("executions")
        return self.started

    def concurrency(self) -> QuotaUsage:
        self._check("concurrency")
        return self.used

    def set_aside(self, destination: str) -> SetAsideWaiting:
        self._check("set_aside")
        return self.kept.get(destination, SetAsideWaiting(0))

    def set_aside_batches(
        self,
        destination: str,  # noqa: ARG002 - the same everywhere
        most: int,  # noqa: ARG002 - a test sets no more
        *,
        receives: bool,
    ) -> SetAsideBatches | None:
        self._check("set_aside_batches")
        return self.kept_batches if receives else None

    def _check(self, method: str) -> None:
        if method in self.refuses:
            raise CheckRefused(f"these credentials lack the permission for {method}")
