"""One process's access to the stream, made once and kept, because Spark's Python workers run task after task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache, partial
from typing import TYPE_CHECKING

from sublet.aws.assumed_roles import connection_of
from sublet.aws.clients import kinesis_client, kinesis_poll_client, tagging_client
from sublet.aws.kinesis.several_streams import AwsStreams
from sublet.aws.kinesis.stream import KinesisStream
from sublet.aws.service_access import ServiceAccess
from sublet.ports import Clock, Log, Stream, Streams
from sublet.protocol.stream_key import StreamKey
from sublet.reading.several_streams import StreamOfSeveral
from sublet.settings import Settings
from sublet.spark.options import Options
from sublet.spark.read.pace import CallPace, Sleep
from sublet.spark.read.page_memory import PageMemory
from sublet.spark.read.patient import PatientStream, PatientStreams
from sublet.spark.read.task_sleep import task_sleep
from sublet.system.clock import SystemClock
from sublet.system.python_log import PythonLog
from sublet.system.threads import ThreadTasks

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient


@dataclass(frozen=True, slots=True)
class StreamAccess:
    """One process's access to a stream.

    patience  how long to wait while a call is refused
    memory    for the pages of a shard that is read beside others; None: without bound
    """

    stream: Stream
    pace: CallPace
    clock: Clock
    sleep: Sleep
    log: Log
    patience: timedelta
    memory: PageMemory | None = None

    def own_time(self) -> datetime:
        """The steady clock less the waits for memory, so that a slow consumer uses up no patience."""
        waited = timedelta(0) if self.memory is None else self.memory.waited
        return self.clock.steady() - waited


@dataclass(frozen=True, slots=True)
class StreamsAccess:
    """One process's access to a query's streams.

    streams   which there are; None: the query reads one stream
    connect   to one of them, by its own options
    """

    streams: Streams | None
    connect: Callable[[Options], StreamAccess]
    clock: Clock
    sleep: Sleep
    log: Log


def connect_driver(options: Options) -> StreamsAccess:
    """Connects the driver, whose one process makes all of a query's looks."""
    clock, sleep = SystemClock(), ThreadTasks().signal().wait
    return StreamsAccess(streams_of(options), _connect_to_look, clock, sleep, PythonLog("sublet.spark"))


def connect_batch(options: Options) -> StreamsAccess:
    """Connects the driver of a batch read, which looks for its streams once."""
    clock, sleep = SystemClock(), ThreadTasks().signal().wait
    streams = streams_of(options)
    patient = None if streams is None else PatientStreams(streams, clock, sleep, options.patience)
    return StreamsAccess(patient, connect_task, clock, sleep, PythonLog("sublet.spark"))


def connect_task(options: Options) -> StreamAccess:
    """Connects a task, which may run in any worker process."""
    return _connection(options.settings, options.access, options.patience, CallPace.of_task)


def _connect_to_look(options: Options) -> StreamAccess:
    return _connection(options.settings, options.access, options.patience, CallPace.of_driver)


def connect_once(options: Options) -> KinesisStream:
    """Connects for a call that need not succeed, and so does not wait."""
    return _kinesis(options.settings, options.access)


def streams_of(options: Options) -> Streams | None:
    """The streams of a query of several; None for one. Calls that find them do not wait."""
    if options.streams is None:
        return None
    way = connection_of(options.access)
    where = way.region, way.endpoint_url, way.session
    return AwsStreams(*_clients(options.access), options.settings, partial(tagging_client, *where))


def of_stream(connection: StreamAccess, key: StreamKey | None) -> StreamAccess:
    """Access to one of several streams, with its shards named as in their application; with None to the only one."""
    return connection if key is None else replace(connection, stream=StreamOfSeveral(key, connection.stream))


@cache
def _clients(access: ServiceAccess) -> tuple[KinesisClient, KinesisClient]:
    """Returns clients that hundreds of streams share."""
    way = connection_of(access)
    return kinesis_client(*way), kinesis_poll_client(*way)


@cache
def _kinesis(settings: Settings, access: ServiceAccess) -> KinesisStream:
    return KinesisStream(*_clients(access), settings)


@cache
def _connection(
    settings: Settings, access: ServiceAccess, patience: timedelta, pace: Callable[[Clock, Sleep], CallPace]
) -> StreamAccess:
    clock, sleep = SystemClock(), task_sleep
    stream = PatientStream(_kinesis(settings, access), clock, sleep, patience)
    return StreamAccess(stream, pace(clock, sleep), clock, sleep, PythonLog("sublet.spark"), patience)
