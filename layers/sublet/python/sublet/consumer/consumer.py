"""`Consumer`: the process runtime in three lines, with a handler that it calls, or without one to pull records from."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self, Unpack

from sublet.consumer.defaults import check_given, of_this_process, process_defaults, pull_settings
from sublet.consumer.forked import CONSUMER_STAYS
from sublet.errors import SettingsError
from sublet.handler import UserHandler
from sublet.handlers.load import handler_of
from sublet.protocol.stream_identity import stream_settings
from sublet.settings import Settings, check_sets_aside, setting_values

if TYPE_CHECKING:  # what `import sublet` does without; the methods load it
    from sublet.account import Account
    from sublet.consumer.consuming import Callback, Consuming
    from sublet.consumer.group import Group
    from sublet.consumer.pulling import Records
    from sublet.consumer.record import Record
    from sublet.consumer.world import World
    from sublet.decisions.fleet_status import FleetStatus
    from sublet.decisions.pull_events import Event
    from sublet.decisions.pull_request import Buffering, Demand, FetchProgress, Patience
    from sublet.decisions.work_distribution import WorkDistribution
    from sublet.ports import Ports
    from sublet.settings.keywords import ProcessKeywords


class Consumer:
    """An application's consumer in this process: one more worker on its leases, beside Lambda, KCL and other processes.

        consumer = Consumer("orders-audit", "orders", handle)
        consumer.run()

    or, to pull from (docs/consumer-api.md):

        with Consumer("orders-audit", "orders") as consumer:
            for record in consumer.messages():
                record.ack()

    application      the consumer group: its lease table bears this name
    stream           a name, or an ARN
    handler          a function that takes a Batch, an object or module with `handle`, or `module:function`. Called from threads
                     of this consumer's own; one call at a time, unless `handler_concurrency` says otherwise. None: to pull from
    ports            over AWS if not given; `sublet.memory.memory_ports(stream)` over memory
    account          where there are no ports: whose AWS it is, or memory; this machine's if not given. Of a Context: `connect`
    ack_wait         pulled: a record of which nothing has been said for so long comes again; 5 minutes
    max_ack_pending  pulled: so many records of a shard are out or buffered beyond the last that is checkpointed; 1,000
    on_event         pulled: called with what it goes on after (sublet.decisions.pull_events), from any thread
    until_signalled  pulled: SIGTERM and SIGINT call `stop` while the `with` block lasts; the second of them, or the end of
                     `drain_timeout`, ends the process at once, saying which leases it leaves. Only in the main thread
    settings         any other of Settings, by name, as a value or as its text (`failover_time="10s"`). A process is continuous
                     and a worker of its own unless told otherwise

    Raises SettingsError and HandlerNotLoadable. AWS is not asked for anything before `run`, or before the first record is pulled.
    """

    def __init__(
        self,
        application: str,
        stream: str,
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
        from sublet.decisions.consumer_definition import checked_terms
        from sublet.system.threads import ThreadTasks

        check_given(ports, account, on_event)
        given = setting_values(settings)
        if handler is None:
            self.settings = pull_settings(application, stream, given)
        else:
            defaults = process_defaults(application)
            self.settings = Settings(
                **{**defaults, **given, "application": application, **stream_settings(stream)}
            )
            check_sets_aside(self.settings)
            handler_of(handler, self.settings)  # what cannot be used is refused here
        checked_terms(self.settings, ack_wait, max_ack_pending)
        self._handler = handler
        self._until_signalled = until_signalled
        self._at_exit = ExitStack()
        of = ports or account
        self._tasks = ThreadTasks() if of is None else of.tasks
        self._stop = self._tasks.signal()

        made_in = os.getpid()

        def world() -> World:
            from sublet.consumer.world import world_of

            self.settings = of_this_process(self.settings, given, made_in)
            return world_of(
                self.settings, given, ports, account, on_event, ack_wait=ack_wait, max_ack_pending=max_ack_pending,
                stopped=self._stop,
            )  # fmt: skip

        self._world = world
        self._known_group: Group | None = None
        self._first_use = self._tasks.lock()

    def __reduce__(self) -> NoReturn:
        raise TypeError(CONSUMER_STAYS)

    def run(self, *, until_signalled: bool = False, create_tables: bool = True) -> None:
        """Consume until `stop`; then checkpoint and release every lease, so that others go on at once, and return.

        `until_signalled`: SIGTERM and SIGINT stop it too, as when a container ends, or at Ctrl-C; the second, or the end of
        `drain_timeout`, ends the process at once, saying which leases it leaves. Only in the main thread.
        `create_tables`: over AWS, make the lease table and the sightings' table if there are none, as KCL does.
        Raises what is not transient, such as LeaseTableNotFound or StreamAccessDenied, after everything has been released; and
        ProcessSpent if only a new process can go on: calls of the handler hang, or there are no more threads or descriptors.
        """
        from sublet.runtimes.ending import stop_at_signals, stops
        from sublet.runtimes.process import ConsumerProcess

        if self._handler is None:
            raise SettingsError("handler", None, "given to a consumer that is run; this one is to pull from")
        running: list[ConsumerProcess] = []
        told = stops(self._tasks, self._stop)
        with ExitStack() as at_end:
            at_end.callback(told.is_over.set)
            if until_signalled:
                put_back = stop_at_signals(
                    told,
                    self.settings.drain_timeout,
                    self._tasks,
                    lambda: [left for process in running for left in process.left()],
                )
                at_end.callback(put_back)
            joined = self._world().join(told.stop, told.leaving, may_create=create_tables)
            if joined is None:  # told to stop before AWS could be reached
                return
            ports, terms, _ = joined
            handler = handler_of(self._handler, terms.settings)
            running.append(ConsumerProcess(ports, handler, terms.settings, told.stop, told.leaving))
            running[0].run()

    def stop(self) -> None:
        """Have `run` end within seconds, or after the handler's call; have every pull end, and no call of a callback begin. What
        is said of records that are out still counts. From any thread, or a signal handler; and for good.
        """
        self._stop.set()

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called, or a signal came: pulls end at once, and have nothing."""
        return self._stop.is_set()

    @property
    def _group(self) -> Group:
        with self._first_use:
            if self._known_group is None:
                from sublet.consumer.group import Group

                self._known_group = Group(self._world())
            return self._known_group

    @property
    def _pulled(self) -> Group:
        """Of what is pulled from: two that consume in one process would have one worker id."""
        if self._handler is not None:
            raise SettingsError("handler", self._handler, "left out to pull records; this consumer is run")
        return self._group

    def create(self) -> None:
        """Make what is not there of it: the lease table, the sightings' table, and in that its definition, which all programs
        that pull from it go by. Pulling never does. Raises SettingsInConflict if it is defined otherwise.
        """
        self._group.create()

    def update(self) -> None:
        """Have the definition say what this consumer was given. A program that was given another is told: SettingsInConflict."""
        self._group.update()

    def create_or_update(self) -> None:
        """`create`, or `update` where it is there."""
        self._group.create_or_update()

    def delete(self) -> None:
        """Its leases, its positions and its definition; the stream stays. Other programs that pull from it are told:
        LeaseTableNotFound.
        """
        self._group.delete()

    def info(self, *, cached: bool = False, positions: bool = True) -> FleetStatus:
        """How the application stands: its shards, who has them, how far they are. `cached`: as it was told last, if it was.

        `positions`: how far as moments too, for which each shard is asked: two calls, one of them of its five polls a second.
        """
        return self._group.info(cached=cached, with_positions=positions)

    def distribution(self, *, cached: bool = False) -> WorkDistribution:
        """Who has how many of its shards, and how much is read of them: by worker and by group of workers, beside what is fair.
        `cached`: as `info` told it last, if it did.
        """
        return self._group.distribution(cached=cached)

    def __enter__(self) -> Self:
        """Be a member of the group for as long as the block lasts: leases are kept from one fetch to the next."""
        from sublet.consumer.signalled import stopped_by_signals

        group = self._pulled
        with ExitStack() as undone:
            if self._until_signalled:
                undone.enter_context(stopped_by_signals(group, self._stop))
            group.join()
            self._at_exit = undone.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None
    ) -> None:
        """Let calls of callbacks end that are under way, `drain_timeout` at most; checkpoint what is acknowledged; release every
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
        """An iterator over at most so many records or bytes (one of the two is required), as they come, that ends after `expires`
        (seconds, or a timedelta) at the latest.

        Outside of `with consumer:` it takes what leases are free, never steals, and releases them when something has been said of
        each record that it gave, when it is closed, or `expires` after its end.
        """
        from sublet.decisions.pull_request import fetch_of, patience_of

        return self._pull(
            fetch_of(max_records, max_bytes), patience_of(expires, idle_heartbeat), expires=True
        )

    def next(
        self, *, expires: timedelta | float = 30, idle_heartbeat: timedelta | float | None = None
    ) -> Record | None:
        """One record, asked for now; None if none comes before `expires`."""
        return next(self.fetch(1, expires=expires, idle_heartbeat=idle_heartbeat), None)

    def messages(self, *, auto_ack: bool = False, **buffering: Unpack[Buffering]) -> Records:
        """An iterator over all records as they come, without an end, ahead of which so many records or bytes are buffered.

        `auto_ack`: a record is done when the next one is asked for.
        """
        from sublet.decisions.pull_request import buffering_of

        return self._pull(*buffering_of(**buffering), auto_ack=auto_ack)

    def consume(
        self,
        callback: Callback,
        *,
        auto_ack: bool = False,
        partition_by_key: int | None = None,
        on_event: Callable[[Event], object] | None = None,
        **buffering: Unpack[Buffering],
    ) -> Consuming:
        """Have the callback called with each record, in a thread; with `partition_by_key` in so many, each key's in order.

        Raises SettingsError for an async callback, which `sublet.aio` calls, and for what is none.
        """
        from sublet.consumer.consuming import Consuming, check_callback
        from sublet.decisions.pull_request import buffering_of, lanes_of

        check_callback(callback)
        demand, patience = buffering_of(**buffering)
        lanes = None if partition_by_key is None else lanes_of(partition_by_key)
        group, records = self._pulled, self._pull(demand, patience, on_event=on_event)
        return Consuming(
            records, callback, tasks=group.world.tasks, settings=self.settings, auto_ack=auto_ack,
            lanes=lanes, bound=demand.max_records,
        )  # fmt: skip

    def _pull(
        self,
        wants: FetchProgress | Demand,
        patience: Patience,
        *,
        expires: bool = False,
        auto_ack: bool = False,
        on_event: Callable[[Event], object] | None = None,
    ) -> Records:
        from sublet.consumer.pulling import Records

        group = self._pulled
        puller = group.pull(wants, patience, expires=expires, acks=auto_ack, on_event=on_event)
        return Records(puller, group.world.tasks, auto_ack=auto_ack)
