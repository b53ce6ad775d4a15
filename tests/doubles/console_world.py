"""A console over applications in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count

from sublet.decisions.load.sketch import ShardSketch
from sublet.decisions.status.fleet_status import fleet_status
from sublet.operate.console.applications import OpenApplication, SetAsidePlace
from sublet.operate.console.browser_sessions import SignIn
from sublet.operate.console.console_parts import Console
from sublet.operate.console.plans import ChangePlans
from sublet.operate.console.trusted_proxy import TrustedProxy
from sublet.operate.console.watching import ApplicationWatcher
from sublet.operate.rules.hot_shards import HotShard, StreamLook, hot_shards
from sublet.operate.rules.set_aside_waiting import SetAsideWaiting
from sublet.ports import Clock
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.lease import Lease
from sublet.protocol.stream_info import StreamMode
from sublet.settings import Settings
from sublet.system.threads import ThreadTasks
from sublet.testing.memory import (
    FakeClock,
    MemoryDestination,
    MemoryLeaseTable,
    MemoryLog,
    MemorySightingStore,
    MemorySnapshotStore,
    MemoryStream,
)
from sublet.testing.memory.ports import memory_ports

ASIDE = "arn:aws:sqs:eu-west-1:123456789012:aside"


@dataclass
class MemoryApplication:
    """`put_lease`, and what the ports do, change it."""

    name: str
    clock: Clock
    log: MemoryLog
    shards: int = 2
    stream: MemoryStream = field(init=False)
    table: MemoryLeaseTable = field(init=False)
    aside: MemoryDestination = field(init=False)
    sketches: dict[str, ShardSketch] = field(default_factory=dict)
    opened: OpenApplication = field(init=False)

    def __post_init__(self) -> None:
        settings = Settings(application=self.name, stream="events", linger=timedelta(0))
        self.stream = MemoryStream(self.shards, clock=self.clock, name="events", advance=lambda: timedelta(days=7))
        self.table = MemoryLeaseTable(
            Lease(shard.shard_id, TRIM_HORIZON, parent_shard_ids=shard.parent_shard_ids)
            for shard in self.stream.list_shards()
        )
        ports = memory_ports(
            self.stream,
            self.table,
            sightings=MemorySightingStore(),
            clock=self.clock,
            tasks=ThreadTasks(),
            log=self.log,
        )
        self.aside = MemoryDestination()
        self.opened = OpenApplication(
            self.name,
            "events",
            settings,
            ports,
            MemorySnapshotStore(),
            SetAsidePlace(ASIDE, self.aside, lambda: SetAsideWaiting(self.aside.counted().available), self.aside),
            heat=self.heat,
        )

    def heat(self) -> Sequence[HotShard]:
        """Of a provisioned stream."""
        placed_by, shards = self.stream.distribution, self.stream.list_shards()
        standing = fleet_status(self.table.scan(), self.clock.now(), self.opened.settings).shards
        return hot_shards(StreamLook(StreamMode.PROVISIONED, placed_by, shards, standing, self.sketches))

    def without_control(self) -> None:
        """As KCL's own applications are: there is no table beside theirs."""
        self.opened = replace(self.opened, ports=replace(self.opened.ports, control=None))


@dataclass
class MemoryApplications:
    """The Applications port."""

    every: dict[str, MemoryApplication]

    def names(self) -> Sequence[str]:
        return sorted(self.every)

    def open(self, name: str) -> OpenApplication | None:
        found = self.every.get(name)
        return None if found is None else found.opened


class ConsoleWorld:
    """`console`, over the named applications. Secrets are numbered, so that a test sees the same each time."""

    def __init__(
        self,
        *names: str,
        shards: int = 2,
        allows_changes: bool = True,
        token: str | None = None,
        clock: Clock | None = None,
        proxy: TrustedProxy | None = None,
    ) -> None:
        self.clock: Clock = clock or FakeClock()
        self.log = MemoryLog()
        self.applications = {
            name: MemoryApplication(name, self.clock, self.log, shards) for name in names or ("orders",)
        }
        secrets, tasks, found = count(1), ThreadTasks(), MemoryApplications(self.applications)
        self.console = Console(
            found,
            SignIn(self.clock, lambda: f"secret-{next(secrets)}", token),
            ApplicationWatcher(found, self.clock, tasks, self.log),
            ChangePlans(self.clock, tasks, self.log, lambda: f"plan-{next(secrets)}"),
            self.clock,
            self.log,
            allows_changes,
            "ada@laptop",
            "0.0",
            proxy=proxy,
        )

    @property
    def orders(self) -> MemoryApplication:
        return self.applications["orders"]
