"""`sublet.Consumer`: a consumer in this process that calls a handler, or that a program pulls records from."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self, Unpack

from sublet.errors import SettingsError
from sublet.handler import UserHandler
from sublet.pull.arguments import ConsumerArguments
from sublet.pull.interrupts_and_forks import CONSUMER_STAYS
from sublet.settings import Settings

if TYPE_CHECKING:  # not loaded by `import sublet`; the methods load it
    from sublet.decisions.pull.pull_events import Event
    from sublet.decisions.pull.pull_request import BufferOptions
    from sublet.decisions.status.fleet_status import FleetStatus
    from sublet.decisions.status.work_distribution import WorkDistribution
    from sublet.ports import Ports, Signal
    from sublet.ports.account import Account
    from sublet.pull.consume import Callback, Consuming
    from sublet.pull.environment import Environment
    from sublet.pull.group import Group
    from sublet.pull.record import Record
    from sublet.pull.subscription import Records
    from sublet.settings.keywords import ProcessKeywords


class Consumer:
    """An application's consumer in this process: one more worker of the application, beside Lambda, KCL and other
    processes.

        consumer = Consumer("orders-audit", "orders", handle)
        consumer.run()

    or, to pull records (docs/consumer-api.md):

        with Consumer("orders-audit", "orders") as consumer:
            for record in consumer.messages():
                record.ack()

    application      the consumer group, which is also its lease table's name
    stream           a name, or an ARN; left out with `streams`, which names several: streams=["orders", "audit-*"]
    handler          a function that takes a Batch, an object or module with `handle`, or `module:function`. This
                     consumer's own threads call it, one call at a time unless `handler_concurrency` says otherwise.
                     None: the program pulls
    ports            where to read and write: AWS by default; `sublet.testing.memory.memory_ports(stream)` for memory
    account          without ports: the AWS account, or memory, to use; by default the one this machine is configured
                     for. A Context passes its own
    ack_wait         pull: a record that is not acknowledged within this time comes again; 5 minutes
    max_ack_pending  pull: how many records of a shard may be out or buffered beyond its checkpoint; 1,000
    on_event         pull: called with events that do not end the consumer (sublet.decisions.pull.pull_events), from any
                     thread
    until_signalled  pull: SIGTERM and SIGINT call `stop` during the `with` block. A second signal, or the end of
                     `drain_timeout`, ends the process at once and prints which leases it leaves. Only in the main
                     thread
    settings         any other field of Settings, by name, as a value or as text (`failover_time="1m"`). By default a
                     process is continuous and has its own worker id

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
        self._arguments = ConsumerArguments(
            application,
            stream,
            handler,
            ports=ports,
            account=account,
            ack_wait=ack_wait,
            max_ack_pending=max_ack_pending,
            on_event=on_event,
            settings=settings,
        )
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
        """The settings of this consumer: those given, and a process's defaults for the others."""
        return self._arguments.settings

    def run(self, *, until_signalled: bool = False, create_tables: bool = True) -> None:
        """Consume until `stop` is called. Then checkpoint and release every lease, so that others continue at once, and
        return.

        `until_signalled`: SIGTERM (a container ends) and SIGINT (Ctrl-C) stop it too. A second signal, or the end of
        `drain_timeout`, ends the process at once and prints which leases it leaves. Only in the main thread.

        `create_tables`: on AWS, create the lease table and the sightings table if they do not exist, as KCL does.

        Raises errors for which waiting does not help, such as LeaseTableNotFound, and after `refusal_patience` what AWS
        refuses, such as StreamAccessDenied; at the start that is raised at once. Every lease is released before.
        Raises ProcessSpent if only a new process can continue: handler calls hang, or threads or descriptors have run
        out.
        """
        from sublet.runtimes.run_handler import run_handler

        if self._handler is None:
            raise SettingsError(
                "handler", None, "required to run: this consumer was created without a handler, to pull records"
            )
        environment = self._environment()

        def join(stop: Signal, leaving: Signal) -> tuple[Ports, Settings] | None:
            joined = environment.join(stop, leaving, may_create=create_tables)
            return None if joined is None else (joined.ports, joined.terms.settings)

        run_handler(
            self._handler,
            join,
            self.settings,
            self._arguments.tasks,
            self._arguments.stop,
            until_signalled=until_signalled,
        )

    def stop(self) -> None:
        """Make `run` return within seconds, or after the handler's call. Pulls end, and no further callback starts.
        Records that are out can still be acknowledged. Any thread or signal handler may call this. It cannot be undone.
        """
        self._arguments.stop.set()

    @property
    def stopped(self) -> bool:
        """True once `stop` was called or a signal came. Pulls then end at once, without records."""
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
        """The group to pull from. Refuses a consumer with a handler: running it as well would be two workers with one
        id.
        """
        if self._handler is not None:
            raise SettingsError(
                "handler", self._handler, "allowed only to run a consumer; create one without a handler to pull records"
            )
        return self._group

    def create(self) -> None:
        """Create what is missing: the lease table, the sightings table, and in the latter the consumer's definition,
        which every program that pulls from it follows. Pulling creates nothing. Raises SettingsInConflict if the
        definition differs.
        """
        self._group.create()

    def update(self) -> None:
        """Replace the definition by this consumer's options. Programs with other options get SettingsInConflict."""
        self._group.update()

    def create_or_update(self) -> None:
        """Call `create`, or `update` if the consumer exists."""
        self._group.create_or_update()

    def delete(self) -> None:
        """Delete its leases, its positions and its definition; the stream stays. Other programs that pull from it get
        LeaseTableNotFound.
        """
        self._group.delete()

    def info(self, *, cached: bool = False, positions: bool = True) -> FleetStatus:
        """The application's state: its shards, their owners and their positions. `cached`: return what the last call
        returned, if there was one.

        `positions`: also find the time of each position. This takes two calls for each shard, one of them out of its
        five polls a second.
        """
        return self._group.info(cached=cached, with_positions=positions)

    def distribution(self, *, cached: bool = False) -> WorkDistribution:
        """How many shards each worker and each group of workers has, and how fast they read them, beside their fair
        share. `cached`: use what `info` returned last, if it was called.
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

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        """Wait up to `drain_timeout` for callbacks in progress. Then checkpoint acknowledged records and release every
        lease.
        """
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
        """An iterator over records as they come, up to `max_records` or `max_bytes`, one of which is required. It ends
        after `expires` (seconds, or a timedelta) at the latest.

        Outside of `with consumer:` it takes free leases and never steals. It releases them when every record that it
        returned is acknowledged, when it is closed, or `expires` after its end.
        """
        from sublet.pull.subscription import Records

        group = self._pulled
        return Records(group.fetch(max_records, max_bytes, expires, idle_heartbeat), group.environment.tasks)

    def next(
        self, *, expires: timedelta | float = 30, idle_heartbeat: timedelta | float | None = None
    ) -> Record | None:
        """Returns one record, or None if none comes within `expires`."""
        return next(self.fetch(1, expires=expires, idle_heartbeat=idle_heartbeat), None)

    def messages(self, *, auto_ack: bool = False, **buffering: Unpack[BufferOptions]) -> Records:
        """An endless iterator over all records as they come. `buffering` limits its buffer, in records or bytes.

        `auto_ack`: a record is done when the program asks for the next one.
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
        **buffering: Unpack[BufferOptions],
    ) -> Consuming:
        """Call the callback with each record, in `partition_by_key` threads (1 by default), in order within each
        partition key.

        Raises SettingsError for an async callback, which needs `sublet.aio`, and for one that takes no record.
        """
        from sublet.decisions.pull.pull_request import checked_parallelism
        from sublet.pull.consume import Consuming, check_callback
        from sublet.pull.subscription import Records

        check_callback(callback)
        lanes = None if partition_by_key is None else checked_parallelism(partition_by_key)
        group = self._pulled
        tasks = group.environment.tasks
        subscription = group.messages(buffering, on_event=on_event)
        return Consuming(
            Records(subscription, tasks),
            callback,
            tasks=tasks,
            auto_ack=auto_ack,
            lanes=lanes,
            bound=subscription.request.wants.max_records,
        )
