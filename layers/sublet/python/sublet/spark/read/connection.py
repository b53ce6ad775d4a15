"""One process's access to the stream, made once and kept, because Spark's Python workers run task after task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import cache

from sublet.aws.access import Access
from sublet.aws.assumed_roles import connection_of
from sublet.aws.clients import kinesis_client, kinesis_poll_client
from sublet.aws.kinesis import KinesisStream
from sublet.ports import Clock, Log, Stream
from sublet.settings import Settings
from sublet.spark.options import Options
from sublet.spark.read.pace import CallPace, Sleep
from sublet.spark.read.patient import PatientStream
from sublet.system.clock import SystemClock
from sublet.system.python_log import PythonLog
from sublet.system.threads import ThreadTasks


@dataclass(frozen=True, slots=True)
class StreamAccess:
    """One process's access to a stream. `patience`: how long to wait while a call is refused."""

    stream: Stream
    pace: CallPace
    clock: Clock
    sleep: Sleep
    log: Log
    patience: timedelta


def connect_driver(options: Options) -> StreamAccess:
    """For the driver's looks, all of which its one process makes."""
    return _connection(options.settings, options.access, options.patience, CallPace.of_driver)


def connect_task(options: Options) -> StreamAccess:
    """For a task's reads, in any worker process."""
    return _connection(options.settings, options.access, options.patience, CallPace.of_task)


def connect_once(options: Options) -> KinesisStream:
    """For a call that need not succeed: it does not wait."""
    return _kinesis(options.settings, options.access)


@cache
def _kinesis(settings: Settings, access: Access) -> KinesisStream:
    way = connection_of(access)
    return KinesisStream(kinesis_client(*way), kinesis_poll_client(*way), settings)


@cache
def _connection(
    settings: Settings, access: Access, patience: timedelta, pace: Callable[[Clock, Sleep], CallPace]
) -> StreamAccess:
    clock, sleep = SystemClock(), ThreadTasks().signal().wait
    stream = PatientStream(_kinesis(settings, access), clock, sleep, patience)
    return StreamAccess(stream, pace(clock, sleep), clock, sleep, PythonLog("sublet.spark"), patience)
