"""Every port over AWS, for a runtime: the one place where a consumer's adapters are made."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import SystemRandom
from typing import TYPE_CHECKING

from sublet.aws import clients
from sublet.aws.clients import MACHINE, Connection
from sublet.aws.dynamodb import DynamoDbLeaseTable
from sublet.aws.kinesis import KinesisStream
from sublet.aws.log import PowertoolsLog
from sublet.aws.metrics import EmfMetrics
from sublet.aws.output import STANDARD_OUTPUT, MetricsLogger, Output
from sublet.aws.sightings import DynamoDbSightingStore
from sublet.aws.worker_reports import DynamoDbWorkerReports
from sublet.errors import StreamAccessDenied
from sublet.ports import FailureDestination, Log, Ports
from sublet.settings import Settings
from sublet.system.clock import SystemClock
from sublet.system.python_log import PythonLog
from sublet.system.threads import ThreadTasks

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


def aws_ports(
    settings: Settings,
    service: str,
    connection: Connection = MACHINE,
    output: Output | None = STANDARD_OUTPUT,
) -> Ports:
    """`output`: where JSON log lines of `service`, and metrics, go; None where the program is the user's: then Python's logging
    has both. boto3 finds region, credentials and endpoints that are not given.
    """
    clock, connection = SystemClock(), connection.for_leases(_leases(settings, service))

    @cache
    def connect() -> DynamoDBClient:
        """A client beside the lease table's, which hands out Scan replies as raw JSON. Made at the first look, before the handler
        is called: a lease worker never looks, and a client is a tenth of its cold start.
        """
        return clients.dynamodb_client(*connection)

    return Ports(
        table=DynamoDbLeaseTable(clients.dynamodb_client(*connection), settings.lease_table),
        stream=kinesis_stream(settings, connection),
        sightings=DynamoDbSightingStore(connect, settings.sightings_table),
        clock=clock,
        tasks=ThreadTasks(),
        chance=SystemRandom(),
        metrics=EmfMetrics(
            settings.application, by_shard=settings.metrics_by_shard, output=output or MetricsLogger()
        ),
        log=log_of(service, output),
        destination=_destination(settings, connection),
        reports=DynamoDbWorkerReports(connect, settings, clock),
    )


def log_of(service: str, output: Output | None) -> Log:
    """As of `aws_ports`."""
    return PythonLog("sublet") if output is None else PowertoolsLog(service, output)


def _leases(settings: Settings, service: str) -> int:
    """The most that are held at once; a lease manager holds none."""
    at_once = {"lease_worker": settings.leases_per_worker, "consumer_process": settings.max_leases_for_worker}
    return at_once.get(service, 0)


def kinesis_stream(settings: Settings, connection: Connection = MACHINE) -> KinesisStream:
    """With clients of its own."""
    client, poll_client = clients.kinesis_client(*connection), clients.kinesis_poll_client(*connection)
    return KinesisStream(client, poll_client, settings)


def _destination(settings: Settings, connection: Connection) -> FailureDestination | None:
    if settings.on_failure is None:
        return None
    from sublet.aws.failure_destinations import failure_destination  # noqa: PLC0415 - a part of each cold start

    return failure_destination(settings.on_failure, connection.session, is_connected=True)


def with_stream_arn(settings: Settings, connection: Connection = MACHINE) -> Settings:
    """For a process that was given a stream's name alone: the ARN, which batches tell, asked of Kinesis once.

    A role that may not ask (kinesis:DescribeStreamSummary) goes on without it. Raises StreamNotFound and StreamUnavailable.
    """
    if settings.stream_arn is not None:
        return settings
    try:
        return replace(settings, stream_arn=kinesis_stream(settings, connection).describe().identity.arn)
    except StreamAccessDenied:
        return settings
