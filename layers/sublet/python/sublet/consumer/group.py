"""A consumer that is pulled from, as both plain Python and asyncio have it: its memberships, and who shares one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sublet.consumer.delivery import Pull
from sublet.consumer.forked import WHY
from sublet.consumer.membership import Hold, Membership
from sublet.consumer.puller import Puller
from sublet.consumer.world import World
from sublet.decisions.consumer_definition import by_definition, options_of, updated
from sublet.decisions.fleet_status import FleetStatus, fleet_status
from sublet.decisions.pull_events import Event
from sublet.decisions.pull_request import Demand, FetchProgress, Patience
from sublet.decisions.work_distribution import WorkDistribution, work_distribution
from sublet.engine.manager.look import check_stream
from sublet.engine.manager.probing import positions
from sublet.engine.process_health import LeftBehind
from sublet.errors import SettingsError, StreamNotAdopted
from sublet.ports import Ports
from sublet.protocol.stream_identity import StreamArn

LOOKS_WITHIN = timedelta(seconds=1)
"""A program that asks for records after so long, though it was stopped, would go on asking for ever."""


@dataclass(slots=True)
class Group:
    """`lasting`: the membership of a `with` block, which all who pull inside of it share.

    One membership at a time: two would go by the same worker id. Whoever begins while one is there shares it, and the next one
    begins when it has released its leases.
    """

    world: World
    lasting: Membership | None = field(default=None, init=False)
    _lasting_hold: Hold = field(default_factory=Hold, init=False)
    _latest: Membership | None = field(default=None, init=False)
    _lock: AbstractContextManager[object] = field(init=False)
    _told: FleetStatus | None = field(default=None, init=False)
    _seen_stopped_at: datetime | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._lock = self.world.tasks.lock()

    def create(self) -> None:
        """Make what is not there: the tables, and the definition. Raises SettingsInConflict where it is defined otherwise."""
        world, ports = self.world, self._checked(may_create=True)
        if not ports.sightings.define(options_of(world.terms), None):
            by_definition(world.terms, world.given, ports.sightings.load().definition)

    def update(self) -> None:
        """Have the definition say what this program was given. Raises LeaseTableNotFound, and SettingsError for what stays."""
        ports = self._checked()
        while True:
            defined = ports.sightings.load().definition
            if ports.sightings.define(updated(defined, self.world.terms, self.world.given), defined):
                return

    def create_or_update(self) -> None:
        self.world.compose(self.world.tasks.signal(), may_create=True)
        self.update()
        self.create()

    def _checked(self, *, may_create: bool = False) -> Ports:
        """Of a consumer of this stream. Raises StreamNotAdopted, before anything of another stream's is changed."""
        ports, settings = self.world.compose(self.world.tasks.signal(), may_create=may_create)
        scan, shards, remembered = ports.table.scan(), ports.stream.list_shards(), ports.sightings.load()
        check_stream(ports, settings, remembered, scan, shards, ports.clock.now())
        return ports

    def delete(self) -> None:
        """The leases, their positions and the definition. Other programs that pull are told: LeaseTableNotFound."""
        if self.world.account is None:
            raise SettingsError("account", None, "given, to delete tables: ports only reach into them")
        account, settings = self.world.account(), self.world.settings
        self.leave()
        known = account.stream_of(settings.application)
        if known is not None and StreamArn.parse(known.arn).stream != settings.stream:
            raise StreamNotAdopted(
                f"consumer {settings.application} is of stream {known}, not of {settings.stream}; delete it there"
            )
        account.delete_tables(settings)

    def info(self, *, cached: bool, with_positions: bool) -> FleetStatus:
        """How the application stands; with `cached` as it was told last, if it was."""
        if self._told is None or not cached:
            ports, settings = self.world.compose(self.world.tasks.signal())
            scan, seen = ports.table.scan(), ports.sightings.load().sightings
            found = positions(scan.leases, ports) if with_positions else {}
            self._told = fleet_status(scan, seen, ports.clock.now(), settings.failover_time, found)
        return self._told

    def distribution(self, *, cached: bool) -> WorkDistribution:
        """Who has how much, by worker and by group."""
        return work_distribution(self.info(cached=cached, with_positions=False), self.world.settings)

    def join(self) -> None:
        if self.lasting is not None:
            raise RuntimeError(
                "this consumer is a member already: a `with` block of it is not entered twice at once"
            )
        self.lasting = self._held(self._lasting_hold, steals=True)

    def leave(self) -> None:
        self.begin_to_leave()()

    def begin_to_leave(self) -> Callable[[], None]:
        """The block of `join` is over. Returns at once what waits until the leases are released."""
        lasting, self.lasting = self.lasting, None
        if lasting is None or lasting.is_inherited:
            return _nothing
        lasting.let_go(self._lasting_hold)
        return lasting.wait_if_ending

    def _held(self, hold: Hold, *, steals: bool) -> Membership:
        if self._latest is not None and self._latest.is_inherited:
            raise RuntimeError(WHY)
        with self._lock:
            before = self._latest
            if before is not None and before.hold(hold, steals=steals):
                return before
            after = None if before is None else before.is_over
            self._latest = Membership(self.world, hold, steals=steals, after=after)
            return self._latest

    def left(self) -> tuple[LeftBehind, ...]:
        """The leases that it holds at this moment."""
        return () if self._latest is None else self._latest.left()

    def _check_stopped(self) -> None:
        if not self.world.stopped.is_set():
            return
        now = self.world.clock.steady()
        if self._seen_stopped_at is None:
            self._seen_stopped_at = now
        if now - self._seen_stopped_at >= LOOKS_WITHIN:
            raise RuntimeError(
                "this consumer was stopped and has no more records: leave its `with` block, by `while not consumer.stopped:`"
            )

    def pull(
        self,
        wants: FetchProgress | Demand,
        patience: Patience,
        *,
        expires: bool,
        acks: bool,
        on_event: Callable[[Event], object] | None,
    ) -> Puller:
        """Begin to. A fetch `expires`; one outside of a `with` block never steals. `acks`: see Pull.

        Once the consumer is stopped, nothing comes. Raises RuntimeError where that makes no difference to the program.
        """
        self._check_stopped()
        hold = Hold() if self.lasting is None else None
        membership = self.lasting or self._held(hold or Hold(), steals=not expires)
        membership.idle_heartbeat = max(membership.idle_heartbeat, patience.idle_heartbeat)
        now = self.world.clock.steady()
        pull = Pull(wants, now + patience.expires if expires else None, acks)
        return Puller(
            membership, pull, self.world.clock, hold, patience.expires if expires else None, on_event
        )


def _nothing() -> None:
    """There is nothing to wait for."""
