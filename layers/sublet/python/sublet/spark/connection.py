"""The way to AWS of one process: made once and kept, since Spark's Python workers run task after task."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from functools import cache

from sublet.aws.clients import dynamodb_client, kinesis_client, kinesis_poll_client
from sublet.aws.dynamodb import DynamoDbLeaseTable
from sublet.aws.kinesis import KinesisStream
from sublet.aws.put_records import KinesisWriter
from sublet.ports import Clock, LeaseTable
from sublet.settings import Settings
from sublet.spark.keeper_link import KeeperLink
from sublet.spark.options import Leases, Options
from sublet.spark.pace import Pace, Sleep
from sublet.spark.pages import Connection
from sublet.spark.query_life import query_connection
from sublet.system.clock import SystemClock
from sublet.system.threads import ThreadTasks


class PythonLog:
    """The Log port over Python's logging: in Spark's workers that is standard error, which Spark keeps."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def info(self, message: str, **fields: object) -> None:
        self._logger.info(_line(message, fields))

    def warning(self, message: str, **fields: object) -> None:
        self._logger.warning(_line(message, fields))

    def error(self, message: str, **fields: object) -> None:
        self._logger.error(_line(message, fields))


def _line(message: str, fields: dict[str, object]) -> str:
    return " ".join([f"sublet: {message}", *(f"{name}={value}" for name, value in fields.items())])


def connect_driver(options: Options) -> Connection:
    """For looks. A query's driver-side process makes them all."""
    return _connection(
        options.settings, options.region, options.endpoint_url, options.patience, Pace.of_driver
    )


def connect_leases(options: Options) -> LeaseTable | None:
    """The table to begin from; None when the query follows no application."""
    if options.leases is not Leases.FOLLOW:
        return None
    return DynamoDbLeaseTable(dynamodb_client(options.region), options.settings.lease_table)


def connect_keeper(options: Options) -> KeeperLink | None:
    """A keeper of the query's own, before any other connection of this process; None when it holds no leases."""
    return KeeperLink(options, query_connection()) if options.leases is Leases.HOLD else None


def connect_task(options: Options) -> Connection:
    """For reads, in whatever worker process the task runs."""
    return _connection(options.settings, options.region, options.endpoint_url, options.patience, Pace.of_task)


def connect_writer(options: Options) -> tuple[KinesisWriter, Connection]:
    """For puts, and for listing the shards."""
    client = kinesis_client(options.region, options.endpoint_url)
    return KinesisWriter(client, options.settings), connect_task(options)


@cache
def _connection(
    settings: Settings,
    region: str | None,
    endpoint_url: str | None,
    patience: timedelta,
    pace: Callable[[Clock, Sleep], Pace],
) -> Connection:
    clock, sleep = SystemClock(), ThreadTasks().signal().wait
    stream = KinesisStream(
        kinesis_client(region, endpoint_url), kinesis_poll_client(region, endpoint_url), settings
    )
    return Connection(stream, pace(clock, sleep), clock, sleep, PythonLog("sublet.spark"), patience)
