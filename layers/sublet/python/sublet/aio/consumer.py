"""`sublet.aio.Consumer`: the pull API of `sublet.Consumer`, on an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import timedelta
from types import TracebackType
from typing import NoReturn, Self, Unpack
from weakref import WeakSet

from sublet.aio.consume import Callback, Consuming, check_callback
from sublet.aio.event_loop import in_thread, to_its_end
from sublet.aio.record import Record
from sublet.aio.subscription import Records
from sublet.decisions.pull.pull_events import Event
from sublet.decisions.pull.pull_request import BufferOptions, checked_parallelism
from sublet.decisions.status.fleet_status import FleetStatus
from sublet.decisions.status.work_distribution import WorkDistribution
from sublet.ports import Ports
from sublet.ports.account import Account
from sublet.pull.arguments import ConsumerArguments
from sublet.pull.group import Group
from sublet.pull.interrupts_and_forks import CONSUMER_STAYS
from sublet.settings import Settings
from sublet.settings.keywords import ProcessKeywords


class Consumer:
    """An application's consumer in this process, to pull from. `sublet.Consumer` documents the arguments and methods.
    `on_event` is called on the event loop that used this consumer last.
    """

    def __init__(
        self,
        application: str,
        stream: str | None = None,
        *,
        ports: Ports | None = None,
        account: Account | None = None,
        ack_wait: timedelta | float | None = None,
        max_ack_pending: int | None = None,
        on_event: Callable[[Event], object] | None = None,
        until_signalled: bool = False,
        **settings: Unpack[ProcessKeywords],
    ) -> None:
        self._arguments = ConsumerArguments(
            application,
            stream,
            None,
            ports=ports,
            account=account,
            ack_wait=ack_wait,
            max_ack_pending=max_ack_pending,
            on_event=on_event,
            settings=settings,
        )
        self._until_signalled = until_signalled
        self._at_exit = ExitStack()
        self._consumings: WeakSet[Consuming] = WeakSet()
        self._on_event = on_event
        self._tell = _on_loop(None)
        self._known_group: Group | None = None

    def __reduce__(self) -> NoReturn:
        raise TypeError(CONSUMER_STAYS)

    @property
    def settings(self) -> Settings:
        return self._arguments.settings

    @property
    def _group(self) -> Group:
        """Also makes the running event loop the one on which `on_event` is called."""
        self._tell = _on_loop(self._on_event)
        if self._known_group is None:
            self._known_group = Group(self._arguments.environment(self._told))
        return self._known_group

    def _told(self, event: Event) -> None:
        if self._tell is not None:
            self._tell(event)

    def stop(self) -> None:
        """See sublet.Consumer.stop."""
        self._arguments.stop.set()

    @property
    def stopped(self) -> bool:
        """See sublet.Consumer.stopped."""
        return self._arguments.stop.is_set()

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
        """Join the group for as long as the block lasts: leases are kept from one fetch to the next."""
        group = self._group
        with ExitStack() as undone:
            if self._until_signalled:
                undone.enter_context(group.stopped_by_signals())
            group.join()
            self._at_exit = undone.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None
    ) -> None:
        """Wait for callbacks in progress, or cancel them if an exception ended the block. Then checkpoint acknowledged
        records and release every lease. Cancelling the task does not cut this short.
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
        return Records(self._group.fetch(max_records, max_bytes, expires, idle_heartbeat))

    async def next(
        self, *, expires: timedelta | float = 30, idle_heartbeat: timedelta | float | None = None
    ) -> Record | None:
        """See sublet.Consumer.next."""
        return await anext(self.fetch(1, expires=expires, idle_heartbeat=idle_heartbeat), None)

    def messages(self, *, auto_ack: bool = False, **buffering: Unpack[BufferOptions]) -> Records:
        """See sublet.Consumer.messages: `async for record in consumer.messages()`."""
        return Records(self._group.messages(buffering, acks=auto_ack))

    async def consume(
        self,
        callback: Callback,
        *,
        auto_ack: bool = False,
        partition_by_key: int = 1,
        on_event: Callable[[Event], object] | None = None,
        **buffering: Unpack[BufferOptions],
    ) -> Consuming:
        """See sublet.Consumer.consume. The callback is a coroutine function, awaited in `partition_by_key` tasks. Any
        other callback raises SettingsError.
        """
        check_callback(callback)
        lanes = checked_parallelism(partition_by_key)
        subscription = self._group.messages(buffering, on_event=_on_loop(on_event))
        consuming = Consuming(
            Records(subscription),
            callback,
            auto_ack=auto_ack,
            lanes=lanes,
            bound=subscription.request.wants.max_records,
        )
        self._consumings.add(consuming)
        return consuming


def _on_loop(on_event: Callable[[Event], object] | None) -> Callable[[Event], object] | None:
    """Returns a function that any thread may call: it calls `on_event` on the loop that is running now, unless that is
    closed.
    """
    if on_event is None:
        return None
    loop = asyncio.get_running_loop()

    def tell(event: Event) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(on_event, event)

    return tell
