"""`sublet.aio.Consumer`: the pull API of `sublet.Consumer`, on an event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import timedelta
from types import TracebackType
from typing import NoReturn, Self, Unpack
from weakref import WeakSet

from sublet.account import Account
from sublet.aio.consuming import Callback, Consuming, check_callback
from sublet.aio.record import Record
from sublet.aio.records import Records
from sublet.aio.threads import in_thread, to_its_end
from sublet.consumer.defaults import check_given, of_this_process, pull_settings
from sublet.consumer.forked import CONSUMER_STAYS
from sublet.consumer.group import Group
from sublet.consumer.signalled import stopped_by_signals
from sublet.consumer.world import World, world_of
from sublet.decisions.consumer_definition import checked_terms
from sublet.decisions.fleet_status import FleetStatus
from sublet.decisions.pull_events import Event
from sublet.decisions.pull_request import (
    Buffering,
    Demand,
    FetchProgress,
    Patience,
    buffering_of,
    fetch_of,
    lanes_of,
    patience_of,
)
from sublet.decisions.work_distribution import WorkDistribution
from sublet.ports import Ports
from sublet.settings.keywords import ProcessKeywords
from sublet.system.threads import ThreadTasks


class Consumer:
    """An application's consumer in this process, to pull from. What its arguments and methods mean is told by `sublet.Consumer`;
    `on_event` is called on the loop that it was used on last.
    """

    def __init__(
        self,
        application: str,
        stream: str,
        *,
        ports: Ports | None = None,
        account: Account | None = None,
        ack_wait: timedelta | float | None = None,
        max_ack_pending: int | None = None,
        on_event: Callable[[Event], object] | None = None,
        until_signalled: bool = False,
        **settings: Unpack[ProcessKeywords],
    ) -> None:
        check_given(ports, account, on_event)
        self.settings = pull_settings(application, stream, settings)
        checked_terms(self.settings, ack_wait, max_ack_pending)

        of = ports or account
        self._stop = (ThreadTasks() if of is None else of.tasks).signal()
        self._until_signalled = until_signalled
        self._at_exit = ExitStack()
        self._consumings: WeakSet[Consuming] = WeakSet()
        made_in = os.getpid()

        def world() -> World:
            self.settings = of_this_process(self.settings, settings, made_in)
            return world_of(
                self.settings, settings, ports, account, self._told, ack_wait=ack_wait, max_ack_pending=max_ack_pending,
                stopped=self._stop,
            )  # fmt: skip

        self._world = world
        self._on_event = on_event
        self._tell = _on_loop(None)
        self._known_group: Group | None = None

    def __reduce__(self) -> NoReturn:
        raise TypeError(CONSUMER_STAYS)

    @property
    def _group(self) -> Group:
        """Used on the running loop, which events are told on from now on."""
        self._tell = _on_loop(self._on_event)
        if self._known_group is None:
            self._known_group = Group(self._world())
        return self._known_group

    def _told(self, event: Event) -> None:
        if self._tell is not None:
            self._tell(event)

    def stop(self) -> None:
        """See sublet.Consumer.stop."""
        self._stop.set()

    @property
    def stopped(self) -> bool:
        """See sublet.Consumer.stopped."""
        return self._stop.is_set()

    async def create(self) -> None:
        """See sublet.Consumer.create."""
        await in_thread(self._group.create)

    async def update(self) -> None:
        """See sublet.Consumer.update."""
        await in_thread(self._group.update)

    async def create_or_update(self) -> None:
        """See sublet.Consumer.create_or_update."""
        await in_thread(self._group.create_or_update)

    async def delete(self) -> None:
        """See sublet.Consumer.delete."""
        await in_thread(self._group.delete)

    async def info(self, *, cached: bool = False, positions: bool = True) -> FleetStatus:
        """See sublet.Consumer.info."""
        return await in_thread(self._group.info, cached=cached, with_positions=positions)

    async def distribution(self, *, cached: bool = False) -> WorkDistribution:
        """See sublet.Consumer.distribution."""
        return await in_thread(self._group.distribution, cached=cached)

    async def __aenter__(self) -> Self:
        """Be a member of the group for as long as the block lasts: leases are kept from one fetch to the next."""
        group = self._group
        with ExitStack() as undone:
            if self._until_signalled:
                undone.enter_context(stopped_by_signals(group, self._stop))
            group.join()
            self._at_exit = undone.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None
    ) -> None:
        """Let calls of callbacks end that are under way, or cancel them if an exception ends the block; checkpoint what is
        acknowledged; release every lease. A cancellation does not hasten that.
        """
        with self._at_exit:
            if kind is not None:
                for consuming in list(self._consumings):
                    consuming.cancel()
            await to_its_end(self._group.begin_to_leave())

    def fetch(
        self,
        max_records: int | None = None,
        max_bytes: int | None = None,
        *,
        expires: timedelta | float = 30,
        idle_heartbeat: timedelta | float | None = None,
    ) -> Records:
        """See sublet.Consumer.fetch: `async for record in consumer.fetch(100)`."""
        return self._pull(
            fetch_of(max_records, max_bytes), patience_of(expires, idle_heartbeat), expires=True
        )

    async def next(
        self, *, expires: timedelta | float = 30, idle_heartbeat: timedelta | float | None = None
    ) -> Record | None:
        """See sublet.Consumer.next."""
        return await anext(self.fetch(1, expires=expires, idle_heartbeat=idle_heartbeat), None)

    def messages(self, *, auto_ack: bool = False, **buffering: Unpack[Buffering]) -> Records:
        """See sublet.Consumer.messages: `async for record in consumer.messages()`."""
        return self._pull(*buffering_of(**buffering), auto_ack=auto_ack)

    async def consume(
        self,
        callback: Callback,
        *,
        auto_ack: bool = False,
        partition_by_key: int = 1,
        on_event: Callable[[Event], object] | None = None,
        **buffering: Unpack[Buffering],
    ) -> Consuming:
        """See sublet.Consumer.consume. The callback is a coroutine function, awaited in `partition_by_key` tasks.

        Raises SettingsError for any other.
        """
        check_callback(callback)
        demand, patience = buffering_of(**buffering)
        lanes = lanes_of(partition_by_key)
        records = self._pull(demand, patience, on_event=on_event)
        consuming = Consuming(
            records, callback, settings=self.settings, auto_ack=auto_ack, lanes=lanes,
            bound=demand.max_records,
        )  # fmt: skip
        self._consumings.add(consuming)
        return consuming

    def _pull(
        self,
        wants: FetchProgress | Demand,
        patience: Patience,
        *,
        expires: bool = False,
        auto_ack: bool = False,
        on_event: Callable[[Event], object] | None = None,
    ) -> Records:
        puller = self._group.pull(
            wants, patience, expires=expires, acks=auto_ack, on_event=_on_loop(on_event)
        )
        return Records(puller, auto_ack=auto_ack)


def _on_loop(on_event: Callable[[Event], object] | None) -> Callable[[Event], object] | None:
    """Called on the running loop, wherever the event comes from; not once the loop is closed."""
    if on_event is None:
        return None
    loop = asyncio.get_running_loop()

    def tell(event: Event) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(on_event, event)

    return tell
