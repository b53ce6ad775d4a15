"""The AWS ports of a command, each made when the command first asks for it."""

from __future__ import annotations

from functools import cached_property
from random import SystemRandom
from typing import TYPE_CHECKING, Any

from sublet.aws import clients
from sublet.aws.metrics import emf_metrics
from sublet.aws.ports import destination_of, kinesis_stream, kinesis_streams, sketch_store_of, stream_of_all
from sublet.aws.tables.control import DynamoDbControlStore
from sublet.aws.tables.lease_table import DynamoDbLeaseTable
from sublet.aws.tables.sightings import DynamoDbSightingStore
from sublet.ports import Ports
from sublet.settings.value import NO_STREAM
from sublet.system.clock import SystemClock
from sublet.system.python_log import PythonLog
from sublet.system.threads import ThreadTasks

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from sublet.decisions.time_and_chance import Chance
    from sublet.ports import (
        Clock,
        ControlStore,
        FailureDestination,
        LeaseTable,
        Log,
        Metrics,
        SightingStore,
        SketchStore,
        Stream,
        Streams,
        Tasks,
    )
    from sublet.settings import Settings


class CommandPorts(Ports):
    """Takes `made` as they are, so that `dataclasses.replace` works. A command neither reports itself as a worker nor
    reads by pushes, decodes a record or traces calls, and its sightings port says that there is no table instead of
    making one.
    """

    def __init__(self, settings: Settings | None = None, **made: Any) -> None:
        vars(self).update(made, _settings=settings)

    _settings: Settings
    reports = None
    pushes = None
    schemas = None
    traces = None

    def _connect(self) -> DynamoDBClient:
        return self._dynamodb

    @cached_property
    def _dynamodb(self) -> DynamoDBClient:
        return clients.dynamodb_client()

    @cached_property
    def table(self) -> LeaseTable:
        """Has a client of its own, since it returns Scan replies as raw JSON."""
        several = self._settings.streams is not None or (None if self._settings.stream == NO_STREAM else False)
        return DynamoDbLeaseTable(clients.dynamodb_client(), self._settings.lease_table, several=several)

    @cached_property
    def stream(self) -> Stream:
        return kinesis_stream(self._settings) if self.streams is None else stream_of_all(self.streams)

    @cached_property
    def streams(self) -> Streams | None:
        return None if self._settings.streams is None else kinesis_streams(self._settings)

    @cached_property
    def sightings(self) -> SightingStore:
        return DynamoDbSightingStore(self._connect, self._settings.sightings_table)

    @cached_property
    def control(self) -> ControlStore:
        return DynamoDbControlStore(self._connect, self._settings.sightings_table)

    @cached_property
    def sketches(self) -> SketchStore | None:
        return sketch_store_of(self._settings, self._connect)

    @cached_property
    def clock(self) -> Clock:
        return SystemClock()

    @cached_property
    def tasks(self) -> Tasks:
        return ThreadTasks()

    @cached_property
    def chance(self) -> Chance:
        return SystemRandom()

    @cached_property
    def metrics(self) -> Metrics:
        return emf_metrics(self._settings)

    @cached_property
    def log(self) -> Log:
        return PythonLog("sublet")

    @cached_property
    def destination(self) -> FailureDestination | None:
        return destination_of(self._settings)
