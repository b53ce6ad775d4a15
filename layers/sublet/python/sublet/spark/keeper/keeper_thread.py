"""Runs the keeper on its own thread, in the source's process on the driver.

That process ends in these ways, as tested on Spark 4.3:

    query.stop(), spark.stop(), Ctrl-C, a failed task or sink   SIGTERM and the end of its input, after the last
    commit is written
    the reader raises, prepareForTriggerAvailableNow too        Spark's runner calls the reader's `stop()`, in
    `finally`
    SIGKILL or SIGTERM of the JVM                               the end of its input

At the end of the input the runner also calls `stop()`, but without a handler SIGTERM would come first. The thread
also watches the process' parent, because a call to AWS may keep the main thread from its input for long. After
SIGKILL of the process itself, its leases expire.
"""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import cache, partial
from queue import Empty, SimpleQueue
from random import SystemRandom
from types import FrameType
from typing import TypeVar

from sublet.aws.assumed_roles import connection_of
from sublet.aws.clients import dynamodb_client
from sublet.aws.metrics import emf_metrics
from sublet.aws.tables.control import DynamoDbControlStore
from sublet.aws.tables.create_tables import create_tables
from sublet.aws.tables.lease_table import DynamoDbLeaseTable
from sublet.aws.tables.sightings_without_table import LastingSightings
from sublet.aws.tables.worker_reports import DynamoDbWorkerReports
from sublet.errors import LeaseKeeperGone
from sublet.ports import Metrics, Ports, Tasks
from sublet.protocol.control import Pause
from sublet.protocol.lease import Lease, MalformedRow
from sublet.protocol.stream_info import Placement
from sublet.protocol.stream_key import StreamKey
from sublet.reading.several_streams import AllStreams
from sublet.settings import Settings
from sublet.spark.keeper.checkpoint_folder import commits_in
from sublet.spark.keeper.keeper import Keeper
from sublet.spark.options import Leases, Options
from sublet.spark.plan.lag import ShardLook
from sublet.spark.plan.offsets import Offset
from sublet.spark.read.connection import connect_once
from sublet.spark.read.found_streams import existing_streams
from sublet.system.clock import SystemClock
from sublet.system.python_log import PythonLog
from sublet.system.threads import ThreadTasks

CHECKS_PER_INTERVAL = 10
"""How many times per heartbeat_interval to check for due heartbeats."""

ANSWER_WAIT = 1.0
"""Seconds between two checks that the keeper is alive, while we wait for its answer."""

T = TypeVar("T")


class KeeperThread:
    """A proxy for the keeper, which the source's main thread calls. Releases everything when it is stopped or
    terminated, or when it notices that the query is over."""

    def __init__(
        self,
        keeper: Keeper,
        tasks: Tasks,
        is_over: Callable[[], bool],
        exit_process: Callable[[int], object] = os._exit,
    ) -> None:
        """`is_over`: True if the query has ended without notice."""
        self._keeper = keeper
        self._is_over = is_over
        self._exit_process = exit_process
        self._exit_code: int | None = None
        self._inbox: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._has_ended = tasks.signal()
        self._keeping = tasks.spawn(self._keep)

    def held(self, committed: Offset) -> Mapping[str, Lease]:
        return self._ask(partial(self._keeper.held, committed))

    def rows(self, shard_ids: Sequence[str]) -> Mapping[str, Lease | MalformedRow]:
        return self._ask(partial(self._keeper.rows, shard_ids))

    def pauses(self, shard_ids: Collection[str]) -> Mapping[str, Pause]:
        return self._ask(partial(self._keeper.pauses, shard_ids))

    def looked(self, found: Mapping[str, ShardLook]) -> None:
        """Passes the looks on without waiting. The next writes report them."""
        self._inbox.put(partial(self._keeper.looked, found))

    def planned(self, end: Offset) -> None:
        self._ask(partial(self._keeper.planned, end))

    def planned_nothing(self) -> None:
        """Passes it on without waiting: what may be given up then is, as soon as possible."""
        self._inbox.put(self._keeper.planned_nothing)

    def unsettled(self) -> frozenset[str] | None:
        return self._ask(self._keeper.unsettled)

    def placement_of(self, stream: StreamKey | None) -> Placement:
        return self._keeper.placement_of(stream)

    def stop(self) -> None:
        """Called when the query is over. Returns when everything is released, or raises the keeper's failure."""
        self._inbox.put(None)
        self._keeping.result()

    def terminate(self, number: int, _: FrameType | None = None) -> None:
        """Ends the process, as the signal demands, once everything is released. Waits for nothing, so a signal handler
        may call it."""
        self._exit_code = 128 + number
        self._inbox.put(None)

    def _ask(self, question: Callable[[], T]) -> T:
        """Raises the keeper's error, or LeaseKeeperGone."""
        answer: Future[T] = Future()
        self._inbox.put(partial(_answer, question, answer))
        while not wait([answer], timeout=ANSWER_WAIT).done:
            if self._has_ended.is_set():
                raise LeaseKeeperGone(
                    "the keeper of the query's leases has ended (the driver's log may say why). Leases still held will "
                    "expire; start the query again"
                )
        return answer.result()

    def _keep(self) -> None:
        """Answers calls and does what is due until the query is over; then releases everything."""
        pause = (self._keeper.settings.heartbeat_interval / CHECKS_PER_INTERVAL).total_seconds()
        try:
            while not self._is_over():
                with suppress(Empty):
                    question = self._inbox.get(timeout=pause)
                    if question is None:
                        break
                    question()
                self._keeper.work()
        except Exception as failure:
            self._keeper.ports.log.error("the keeper of the query's leases has failed", error=type(failure).__name__)
            raise
        finally:
            self._has_ended.set()
            self._keeper.finish()
            if self._exit_code is not None:
                self._exit_process(self._exit_code)


def _answer(question: Callable[[], T], answer: Future[T]) -> None:
    try:
        answer.set_result(question())
    except Exception as refusal:  # noqa: BLE001 - the caller raises it
        answer.set_exception(refusal)


def connect_keeper(options: Options) -> KeeperThread | None:
    """Returns the query's keeper, or None if the query holds no leases. Call it on the main thread, which receives
    signals.
    """
    if options.leases is not Leases.HOLD:
        return None
    jvm = os.getppid()
    thread = KeeperThread(_keeper(options), ThreadTasks(), lambda: os.getppid() != jvm)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, thread.terminate)
    return thread


def _keeper(options: Options) -> Keeper:
    return Keeper(
        _ports(options),
        commits_in(options.checkpoint_location, options.region),
        ThreadTasks().signal().wait,
        options.keeper_settings,
        holder=f"spark/{uuid.uuid4()}",
        fail_on_data_loss=options.fail_on_data_loss,
    )


def keeper_metrics(settings: Settings) -> Metrics:
    """Puts metrics to the handlers of the logger `sublet.metrics`, if there are any, because standard output belongs to
    the user or to Spark.
    """
    return emf_metrics(settings)


def _ports(options: Options) -> Ports:
    """Makes the same ports as `sublet.aws.ports`, but with the query's own credentials and Spark's logging. Creates
    missing tables, as `sublet run` does.
    """
    settings, tasks = options.keeper_settings, ThreadTasks()
    streams = existing_streams(options)  # first: make no table for a stream that does not exist
    leases = connection_of(options.lease_access)
    table, log, clock = dynamodb_client(*leases), PythonLog("sublet.spark.keeper"), SystemClock()
    create_tables(table, settings, tasks.signal(), log.info)
    return Ports(
        table=DynamoDbLeaseTable(table, settings.lease_table, several=streams is not None),
        stream=connect_once(options) if streams is None else AllStreams(streams),
        streams=streams,
        sightings=LastingSightings(cache(partial(dynamodb_client, *leases)), settings, log, may_make=True),
        clock=clock,
        tasks=tasks,
        chance=SystemRandom(),
        metrics=keeper_metrics(settings),
        log=log,
        reports=DynamoDbWorkerReports(partial(dynamodb_client, *leases), settings, clock),
        control=DynamoDbControlStore(cache(partial(dynamodb_client, *leases)), settings.sightings_table),
    )
