"""A consumer that is pulled from, as both plain Python and asyncio have it: its memberships, and who shares one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta

from sublet.consumer.delivery import BufferLimits, Pull
from sublet.consumer.membership import Membership, World
from sublet.consumer.puller import Puller
from sublet.decisions.fleet_status import FleetStatus, fleet_status
from sublet.decisions.pull_events import Event
from sublet.decisions.pull_request import Demand, FetchProgress, Patience
from sublet.ports import Ports, Signal
from sublet.settings import Settings
from sublet.system.clock import SystemClock
from sublet.system.threads import ThreadTasks


@dataclass(slots=True)
class Group:
    """`lasting`: the membership of a `with` block, which all who pull inside of it share."""

    world: World
    is_over_aws: bool
    lasting: Membership | None = field(default=None, init=False)
    _told: FleetStatus | None = field(default=None, init=False)

    def create(self) -> None:
        if self.is_over_aws:
            from sublet.consumer.over_aws import over_aws  # noqa: PLC0415 - boto3, which memory does without

            over_aws(self.world.settings, self.world.tasks.signal(), may_create=True)

    def info(self, *, cached: bool) -> FleetStatus:
        """How the application stands; with `cached` as it was told last, if it was."""
        if self._told is None or not cached:
            ports, settings = self.world.compose(self.world.settings, self.world.tasks.signal())
            seen = ports.sightings.load().sightings
            self._told = fleet_status(ports.table.scan(), seen, ports.clock.now(), settings.failover_time)
        return self._told

    def join(self) -> None:
        if self.lasting is not None:
            raise RuntimeError(
                "this consumer is a member already: a `with` block of it is not entered twice at once"
            )
        self.lasting = Membership(self.world)

    def leave(self) -> None:
        lasting, self.lasting = self.lasting, None
        if lasting is not None:
            lasting.end()

    def pull(
        self,
        wants: FetchProgress | Demand,
        patience: Patience,
        *,
        expires: bool,
        on_event: Callable[[Event], object] | None,
    ) -> Puller:
        """Begin to. A fetch `expires`; one outside of a `with` block never steals."""
        owns = self.lasting is None
        membership = self.lasting or Membership(self._without_stealing() if expires else self.world)
        membership.idle_heartbeat = max(membership.idle_heartbeat, patience.idle_heartbeat)
        if on_event is not None:
            membership.listeners.append(on_event)
        now = self.world.clock.steady()
        pull = Pull(wants, now + patience.expires if expires else None)
        return Puller(membership, pull, self.world.clock, owns, patience.expires if expires else None)

    def _without_stealing(self) -> World:
        return replace(self.world, settings=replace(self.world.settings, max_leases_to_steal_at_one_time=0))


def group_of(
    settings: Settings,
    ports: Ports | None,
    ack_wait: timedelta,
    max_ack_pending: int,
    on_event: Callable[[Event], object] | None,
) -> Group:
    """Over AWS without ports: those are made when it joins."""

    def given(settings: Settings, _stop: Signal) -> tuple[Ports, Settings]:
        assert ports is not None
        return ports, settings

    def tell(event: Event) -> None:
        if on_event is not None:
            on_event(event)

    limits = BufferLimits(max_ack_pending, settings.max_bytes_in_flight, ack_wait)
    clock, tasks = (SystemClock(), ThreadTasks()) if ports is None else (ports.clock, ports.tasks)
    compose = _over_aws if ports is None else given
    return Group(World(compose, settings, limits, clock, tasks, tell), ports is None)


def _over_aws(settings: Settings, stop: Signal) -> tuple[Ports, Settings]:
    from sublet.consumer.over_aws import over_aws  # noqa: PLC0415 - boto3, which memory does without

    return over_aws(settings, stop, may_create=False)
