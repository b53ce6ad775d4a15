"""`sublet.Consumer`: a consumer in this process that calls a handler, or that a program pulls records from."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self, Unpack

from sublet.errors import SettingsError
from sublet.handler import UserHandler
from sublet.pull.arguments import Arguments
from sublet.pull.lifecycle import CONSUMER_STAYS
from sublet.settings import Settings

if TYPE_CHECKING:  # not loaded by `import sublet`; the methods load it
    from sublet.account import Account
    from sublet.decisions.fleet_status import FleetStatus
    from sublet.decisions.pull_events import Event
    from sublet.decisions.pull_request import Buffering
    from sublet.decisions.work_distribution import WorkDistribution
    from sublet.ports import Ports, Signal
    from sublet.pull.consume import Callback, Consuming
    from sublet.pull.environment import Environment
    from sublet.pull.group import Group
    from sublet.pull.record import Record
    from sublet.pull.subscription import Records
    from sublet.settings.keywords import ProcessKeywords


class Consumer:
    """An application's consumer in this process: one more worker on its leases, beside Lambda, KCL and other processes.

        consumer = Consumer("orders-audit", "orders", handle)
        consumer.run()

    or, to pull from (docs/consumer-api.md):

        with Consumer("orders-audit", "orders") as consumer:
            for record in consumer.messages():
                record.ack()

    application      the consumer group, which is also its lease table's name
    stream           a name, or an ARN; left out with `streams`, which names several: streams=["orders", "audit-*"]
    handler          a function that takes a Batch, an object or module with `handle`, or `module:function`. Called from threads
                     of this consumer's own; one call at a time, unless `handler_concurrency` says otherwise. None: to pull from
    ports            over AWS if not given; `sublet.memory.memory_ports(stream)` over memory
    account          without ports: whose AWS, or memory, to use; by default as this machine is configured. A Context gives its
                     own
    ack_wait         pulled: a record that is not acknowledged within this time comes again; 5 minutes
    max_ack_pending  pulled: how many records of a shard may be out or buffered beyond its checkpoint; 1,000
    on_event         pulled: called with events that do not end the consumer (sublet.decisions.pull_events), from any thread
    until_signalled  pulled: SIGTERM and SIGINT call `stop` while the `with` block lasts; the second of them, or the end of
                     `drain_timeout`, ends the process at once, saying which leases it leaves. Only in the main thread
    settings         any other of Settings, by name, as a value or as its text (`failover_time="10s"`). By default a process is
                     continuous, and a worker of its own

    Raises SettingsError and HandlerNotLoadable. Calls AWS only in `run`, or when the first record is pulled.
    """

    def __init__(
        self,
        application: str,
        stream: str | None = None,
        handler: UserHandler | None = None,
        *,
        ports: Ports | None = None,
        account: Account | None = None,
        ack_wait: timedelta | float | None = None,
        max_ack_pending: int | None = None,
        on_event: Callable[[Event], object] | None = None,
        until_signalled: bool = False,
        **settings: Unpack[ProcessKeywords],
    ) -> None:
        self._arguments = Arguments(
            application, stream, handler, ports=ports, account=account, ack_wait=ack_wait,
            max_ack_pending=max_ack_pending, on_event=on_event, settings=settings,
        )  # fmt: skip
        self._handler = handler
        self._on_event = on_event
        self._until_signalled = until_signalled
        self._at_exit = ExitStack()
        self._known_group: Group | None = None
        self._first_use = self._arguments.tasks.lock()
        """Guards `_known_group`."""

    def __reduce__(self) -> NoReturn:
        raise TypeError(CONSUMER_STAYS)

    @property
    def settings(self) -> Settings:
        """The settings that it was given, with the defaults of a process."""
        return self._arguments.settings

    def run(self, *, until_signalled: bool = False, create_tables: bool = True) -> None:
        """Consume until `stop`; then checkpoint and release every lease, so that others go on at once, and return.

        `until_signalled`: SIGTERM and SIGINT stop it too, as when a container ends, or at Ctrl-C; the second, or the end of
        `drain_timeout`, ends the process at once, saying which leases it leaves. Only in the main thread.

        `create_tables`: over AWS, create the lease table and the sightings table if they do not exist, as KCL does.

        Raises errors that are not transient, such as LeaseTableNotFound or StreamAccessDenied, after everything is released;
        and ProcessSpent if only a new process can go on: calls of the handler hang, or there are no more threads or descriptors.
        """
        from sublet.runtimes.run_handler import run_handler

        if self._handler is None:
            raise SettingsError("handler", None, "given to a consumer that is run; this one is to pull from")
        environment = self._environment()

        def join(stop: Signal, leaving: Signal) -> tuple[Ports, Settings] | None:
            joined = environment.join(stop, leaving, may_create=create_tables)
            return None if joined is None else (joined.ports, joined.terms.settings)

        run_handler(
            self._handler, join, self.settings, self._arguments.tasks, self._arguments.stop, until_signalled=until_signalled
        )  # fmt: skip

    def stop(self) -> None:
        """Have `run` end within seconds, or after the handler's call; have every pull end, and no further callback begin. Records
        that are out can still be acknowledged. From any thread, or a signal handler. It cannot be undone.
        """
        self._arguments.stop.set()

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called, or a signal came: pulls end at once, without records."""
        return self._arguments.stop.is_set()

    def _environment(self) -> Environment:
        return self._arguments.environment(self._on_event)

    @property
    def _group(self) -> Group:
        with self._first_use:
            if self._known_group is None:
                from sublet.pull.group import Group

                self._known_group = Group(self._environment())
            return self._known_group

    @property
    def _pulled(self) -> Group:
        """Refuses a consumer with a handler: if it were run and pulled from, two would have one worker id."""
        if self._handler is not None:
            raise SettingsError("handler", self._handler, "left out to pull records; this consumer is run")
        return self._group

    def create(self) -> None:
        """Create what does not exist: the lease table, the sightings table, and in that the consumer's definition, which every
        program that pulls from it follows. Pulling creates nothing. Raises SettingsInConflict if the definition differs.
        """
        self._group.create()

    def update(self) -> None:
        """Replace the definition by what this consumer was given. Programs that were given another get SettingsInConflict."""
        self._group.update()

    def create_or_update(self) -> None:
        """`create`, or `update` if it exists."""
        self._group.create_or_update()

    def delete(self) -> None:
        """Delete its leases, its positions and its definition; the stream stays. Other programs that pull from it get
        LeaseTableNotFound.
        """
        self._group.delete()

    def info(self, *, cached: bool = False, positions: bool = True) -> FleetStatus:
        """The application's state: its shards, their owners, how far they are. `cached`: what the last call returned, if there
        was one.

        `positions`: how far as moments too, which takes two calls for each shard, one of them of its five polls a second.
        """
        return self._group.info(cached=cached, with_positions=positions)

    def distribution(self, *, cached: bool = False) -> WorkDistribution:
        """How many shards each worker and each group of workers has, and how much is read of them, beside their fair share.
        `cached`: from what `info` returned last, if it was called.
        """
        return self._group.distribution(cached=cached)

    def __enter__(self) -> Self:
        """Join the group for as long as the block lasts: leases are kept from one fetch to the next."""
        group = self._pulled
        with ExitStack() as undone:
            if self._until_signalled:
                undone.enter_context(group.stopped_by_signals())
            group.join()
            self._at_exit = undone.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None
    ) -> None:
        """Let callbacks in progress end, within `drain_timeout`; checkpoint what is acknowledged; release every lease."""
        with self._at_exit:
            self._group.leave()

    def fetch(
        self,
        max_records: int | None = None,
        max_bytes: int | None = None,
        *,
        expires: timedelta | float = 30,
        idle_heartbeat: timedelta | float | None = None,
    ) -> Records:
        """An iterator over at most so many records or bytes (one of the two is required), as they come. It ends after `expires`
        (seconds, or a timedelta) at the latest.

        Outside of `with consumer:` it takes free leases and never steals. It releases them when each record that it gave is
        acknowledged, when it is closed, or `expires` after its end.
        """
        from sublet.pull.subscription import Records

        group = self._pulled
        return Records(group.fetch(max_records, max_bytes, expires, idle_heartbeat), group.environment.tasks)

    def next(
        self, *, expires: timedelta | float = 30, idle_heartbeat: timedelta | float | None = None
    ) -> Record | None:
        """One record. None if none comes within `expires`."""
        return next(self.fetch(1, expires=expires, idle_heartbeat=idle_heartbeat), None)

    def messages(self, *, auto_ack: bool = False, **buffering: Unpack[Buffering]) -> Records:
        """An endless iterator over all records as they come, with a buffer of so many records or bytes.

        `auto_ack`: a record is done when the next one is asked for.
        """
        from sublet.pull.subscription import Records

        group = self._pulled
        return Records(group.messages(buffering, acks=auto_ack), group.environment.tasks)

    def consume(
        self,
        callback: Callback,
        *,
        auto_ack: bool = False,
        partition_by_key: int | None = None,
        on_event: Callable[[Event], object] | None = None,
        **buffering: Unpack[Buffering],
    ) -> Consuming:
        """Call the callback with each record, in a thread. With `partition_by_key`, in so many threads: in order within each key.

        Raises SettingsError for an async callback, which needs `sublet.aio`, and for one that takes no record.
        """
        from sublet.decisions.pull_request import checked_parallelism
        from sublet.pull.consume import Consuming, check_callback
        from sublet.pull.subscription import Records

        check_callback(callback)
        lanes = None if partition_by_key is None else checked_parallelism(partition_by_key)
        group = self._pulled
        tasks = group.environment.tasks
        subscription = group.messages(buffering, on_event=on_event)
        return Consuming(
            Records(subscription, tasks), callback, tasks=tasks, auto_ack=auto_ack, lanes=lanes,
            bound=subscription.request.wants.max_records,
        )  # fmt: skip
