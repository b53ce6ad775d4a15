"""Makes every AWS port of a consumer, for a runtime."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import cache
from random import SystemRandom
from typing import TYPE_CHECKING
from uuid import uuid4

from sublet.aws import clients
from sublet.aws.clients import MACHINE, Connection
from sublet.aws.kinesis.stream import KinesisStream
from sublet.aws.log import PowertoolsLog
from sublet.aws.metrics import EmfMetrics, emf_metrics
from sublet.aws.standard_output import STANDARD_OUTPUT, Output
from sublet.aws.tables.control import DynamoDbControlStore
from sublet.aws.tables.lease_table import DynamoDbLeaseTable
from sublet.aws.tables.sightings_without_table import LastingSightings
from sublet.aws.tables.sketch_store import DynamoDbSketchStore
from sublet.aws.tables.worker_reports import DynamoDbWorkerReports
from sublet.errors import SettingsError, StreamAccessDenied
from sublet.ports import (
    Clock,
    FailureDestination,
    Log,
    Metrics,
    Ports,
    Pushes,
    SchemaRegistry,
    SketchStore,
    Stream,
    Streams,
)
from sublet.settings import HotShardKeys, MetricsByShard, MetricsExport, Reading, Settings
from sublet.settings.value import NO_STREAM
from sublet.system.clock import SystemClock
from sublet.system.python_log import PythonLog
from sublet.system.threads import ThreadTasks
from sublet.system.tracing import traces_of

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from sublet.aws.kinesis.several_streams import AwsStreams


def aws_ports(
    settings: Settings,
    service: str,
    connection: Connection = MACHINE,
    output: Output | None = STANDARD_OUTPUT,
    *,
    makes_tables: bool = False,
) -> Ports:
    """`output` takes metrics and the JSON log lines of `service`; if it is None, as in a user's own program, both go
    to Python's logging. boto3 finds region, credentials and endpoints that are not given. `makes_tables`: the process
    may make a sightings table that has been deleted under it."""
    clock, log = SystemClock(), log_of(service, output)
    connection = connection.for_leases(_leases(settings, service))

    @cache
    def connect() -> DynamoDBClient:
        """A second client, since the lease table's returns Scan replies as raw JSON. A tick makes it before the
        handler is first called. A lease worker makes it after ten seconds at the earliest, to see whether its leases
        are paused: creating it is a tenth of its cold start."""
        return clients.dynamodb_client(*connection)

    streams = None if settings.streams is None else kinesis_streams(settings, connection)
    several = streams is not None or (None if settings.stream == NO_STREAM else False)
    return Ports(
        table=DynamoDbLeaseTable(clients.dynamodb_client(*connection), settings.lease_table, several=several),
        stream=kinesis_stream(settings, connection) if streams is None else stream_of_all(streams),
        sightings=LastingSightings(connect, settings, log, may_make=makes_tables),
        clock=clock,
        tasks=ThreadTasks(),
        chance=SystemRandom(),
        metrics=_metrics(settings, service, emf_metrics(settings, output), connection, clock, log),
        log=log,
        destination=destination_of(settings, connection),
        reports=DynamoDbWorkerReports(connect, settings, clock),
        control=DynamoDbControlStore(connect, settings.sightings_table),
        schemas=_schemas(settings, clock, connection),
        streams=streams,
        pushes=_pushes(settings, connection, streams, clock, log) if _leases(settings, service) else None,
        sketches=sketch_store_of(settings, connect),
        traces=traces_of(settings, log),
    )


EXPORTS_APART = timedelta(seconds=50)
"""A process ticks several times a minute, and sends its metrics once. A function sends them with each tick and window,
because it may be frozen afterwards."""


def _metrics(
    settings: Settings, service: str, emf: EmfMetrics, connection: Connection, clock: Clock, log: Log
) -> Metrics:
    """Raises SettingsError."""
    if settings.metrics_export is MetricsExport.EMF:
        return emf
    from sublet.aws.otlp.endpoint import endpoint_of  # noqa: PLC0415 - would add to every cold start
    from sublet.aws.otlp.exported_metrics import ExportedMetrics, OtlpSeries, Sending  # noqa: PLC0415

    endpoint = endpoint_of(os.environ, connection)
    stream = settings.stream if settings.streams is None else None
    series = OtlpSeries(
        settings.application,
        stream,
        endpoint.temporality,
        clock.now(),
        instance=uuid4().hex[:12],
        by_shard=settings.metrics_by_shard is MetricsByShard.ALL,
    )
    apart = EXPORTS_APART if service == "consumer_process" else timedelta(0)
    return ExportedMetrics(emf, series, Sending(endpoint), clock, log, apart)


def stream_of_all(streams: Streams) -> Stream:
    from sublet.reading.several_streams import AllStreams  # noqa: PLC0415 - would add to every cold start

    return AllStreams(streams)


def _schemas(settings: Settings, clock: Clock, connection: Connection) -> SchemaRegistry | None:
    if settings.payload_format is None:
        return None
    from sublet.aws.schema_registries import registry_of  # noqa: PLC0415 - would add to every cold start

    return registry_of(settings.payload_format, clock, connection.region, connection.session)


def sketch_store_of(settings: Settings, connect: Callable[[], DynamoDBClient]) -> SketchStore | None:
    if settings.hot_shard_keys is HotShardKeys.NONE:
        return None
    with_names = settings.hot_shard_keys is HotShardKeys.NAMES
    return DynamoDbSketchStore(connect, settings.sightings_table, with_names=with_names)


def log_of(service: str, output: Output | None) -> Log:
    """See `aws_ports`."""
    return PythonLog("sublet") if output is None else PowertoolsLog(service, output)


def _leases(settings: Settings, service: str) -> int:
    """The most leases held at once; a lease manager holds none."""
    at_once = {"lease_worker": settings.leases_per_worker, "consumer_process": settings.max_leases_for_worker}
    return at_once.get(service, 0)


def kinesis_stream(settings: Settings, connection: Connection = MACHINE) -> KinesisStream:
    """The stream's port with clients of its own."""
    client, poll_client = clients.kinesis_client(*connection), clients.kinesis_poll_client(*connection)
    return KinesisStream(client, poll_client, settings)


def kinesis_streams(settings: Settings, connection: Connection = MACHINE) -> AwsStreams:
    """The streams' port with clients of its own."""
    from sublet.aws.kinesis.several_streams import AwsStreams  # noqa: PLC0415 - would add to every cold start

    client, poll_client = clients.kinesis_client(*connection), clients.kinesis_poll_client(*connection)
    where = connection.region, connection.endpoint_url, connection.session
    return AwsStreams(client, poll_client, settings, lambda: clients.tagging_client(*where))


def _pushes(
    settings: Settings, connection: Connection, streams: AwsStreams | None, clock: Clock, log: Log
) -> Pushes | None:
    """Raises SettingsError if the package for HTTP/2 is missing, unless the endpoint is not encrypted, as an emulator's
    is.
    """
    if settings.reading is Reading.POLLING:
        return None
    from sublet.aws.push.push_requests import PushRequests, has_http2  # noqa: PLC0415 - would add to every cold start

    client = clients.kinesis_poll_client(*connection)
    if client.meta.endpoint_url.startswith("https:") and not has_http2():
        raise SettingsError(
            "reading",
            settings.reading,
            "polling, unless you install sublet with its extra fan-out: SubscribeToShard needs HTTP/2",
        )
    requests = PushRequests(client)
    if streams is None:
        from sublet.aws.kinesis.fan_out_consumers import StatedConsumer  # noqa: PLC0415 - would add to every cold start
        from sublet.aws.push.pushes import KinesisPushes  # noqa: PLC0415 - would add to every cold start

        assert settings.fan_out_consumer is not None, "the settings require it"
        stream, consumer = kinesis_stream(settings, connection), StatedConsumer(settings.fan_out_consumer)
        return KinesisPushes(requests, stream, settings.stream, consumer)
    from sublet.aws.push.pushes_of_streams import PushesOfStreams  # noqa: PLC0415 - would add to every cold start
    from sublet.reading.several_streams import AllPushes  # noqa: PLC0415 - would add to every cold start

    consumers = clients.kinesis_client(*connection)
    return AllPushes(PushesOfStreams(requests, consumers, streams, settings, clock, log).of)


def destination_of(settings: Settings, connection: Connection = MACHINE) -> FailureDestination | None:
    if settings.on_failure is None:
        return None
    from sublet.aws.set_aside.failure_destinations import failure_destination  # noqa: PLC0415 - would add to every cold start

    return failure_destination(settings.on_failure, connection.session, is_connected=True)


def with_stream_arn(settings: Settings, connection: Connection = MACHINE) -> Settings:
    """Adds the ARN, which batches carry, for a process that was given only the stream's name. Asks Kinesis once.
    Without permission (kinesis:DescribeStreamSummary) the settings stay as they are. Raises StreamNotFound and
    StreamUnavailable."""
    if settings.stream_arn is not None or settings.streams is not None:
        return settings
    try:
        return replace(settings, stream_arn=kinesis_stream(settings, connection).describe().identity.arn)
    except StreamAccessDenied:
        return settings
