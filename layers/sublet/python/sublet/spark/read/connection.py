"""The way to the stream of one process: made once and kept, since Spark's Python workers run task after task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Protocol

from sublet.aws.access import Access
from sublet.aws.assumed_roles import connection_of
from sublet.aws.clients import kinesis_client, kinesis_poll_client
from sublet.aws.kinesis import KinesisStream
from sublet.ports import Clock, Log, Stream
from sublet.protocol.stream_identity import StreamIdentity
from sublet.settings import Settings
from sublet.spark.options import Options
from sublet.spark.python_log import PythonLog
from sublet.spark.read.pace import Pace, Sleep
from sublet.system.clock import SystemClock
from sublet.system.threads import ThreadTasks


class IdentifiedStream(Stream, Protocol):
    """A stream that tells itself from another of its name."""

    def identity(self) -> StreamIdentity:
        """Raises what Stream raises."""


@dataclass(frozen=True, slots=True)
class Connection:
    """One process's way to a stream. `patience`: how long refusals of one poll are waited out."""

    stream: IdentifiedStream
    pace: Pace
    clock: Clock
    sleep: Sleep
    log: Log
    patience: timedelta


def connect_driver(options: Options) -> Connection:
    """For looks. A query's driver-side process makes them all."""
    return _connection(options.settings, options.access, options.patience, Pace.of_driver)


def connect_task(options: Options) -> Connection:
    """For reads, in whatever worker process the task runs."""
    return _connection(options.settings, options.access, options.patience, Pace.of_task)


@cache
def _connection(
    settings: Settings, access: Access, patience: timedelta, pace: Callable[[Clock, Sleep], Pace]
) -> Connection:
    clock, sleep, way = SystemClock(), ThreadTasks().signal().wait, connection_of(access)
    stream = KinesisStream(kinesis_client(*way), kinesis_poll_client(*way), settings)
    return Connection(stream, pace(clock, sleep), clock, sleep, PythonLog("sublet.spark"), patience)
