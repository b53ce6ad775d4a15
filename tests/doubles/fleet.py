"""A FleetStatus to show: shards with the fields that a test is about."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sublet.decisions.status.fleet_status import FleetStatus, fleet_status
from sublet.decisions.status.shard_status import ShardStatus
from sublet.decisions.status.status_rules import Status, StatusReason
from sublet.decisions.status.work_distribution import work_distribution
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease import Lease, LeaseScan, MalformedRow
from sublet.settings import Settings

NOW = datetime(2026, 11, 22, 8, tzinfo=UTC)
SETTINGS = Settings(application="orders-audit", stream="orders")


def shard_status(number: int, word: Status, because: StatusReason, **fields: Any) -> ShardStatus:
    """Held by one of Lambda's workers, unless `fields` say otherwise."""
    lease = Lease(f"shardId-{number:012}", Checkpoint("5"), 7, "orders-audit-lambda-0")
    (shard,) = fleet_status(LeaseScan((lease,)), NOW, SETTINGS).shards
    return replace(shard, status=word, because=because, **fields)


def fleet_of(
    *shards: ShardStatus, malformed: tuple[MalformedRow, ...] = (), retention: timedelta | None = None
) -> FleetStatus:
    return FleetStatus(NOW, shards, malformed, work_distribution(shards, NOW, SETTINGS), retention)
