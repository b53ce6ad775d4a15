"""Every port over AWS, for a runtime: the one place where a consumer's adapters are made."""

from __future__ import annotations

from dataclasses import replace
from random import SystemRandom

from sublet.aws import clients
from sublet.aws.clients import MACHINE, Connection
from sublet.aws.dynamodb import DynamoDbLeaseTable
from sublet.aws.kinesis import KinesisStream
from sublet.aws.log import PowertoolsLog
from sublet.aws.metrics import EmfMetrics
from sublet.aws.output import STANDARD_OUTPUT, Output
from sublet.aws.sightings import DynamoDbSightingStore
from sublet.aws.worker_reports import DynamoDbWorkerReports
from sublet.errors import StreamAccessDenied
from sublet.ports import FailureDestination, Ports
from sublet.settings import Settings
from sublet.system.clock import SystemClock
from sublet.system.threads import ThreadTasks


def aws_ports(
    settings: Settings, service: str, connection: Connection = MACHINE, output: Output = STANDARD_OUTPUT
) -> Ports:
    """`service`: whose log lines these are, for `output` as metrics are. Region, credentials and endpoints are boto3's own
    business, unless they are given.
    """
    clock = SystemClock()
    return Ports(
        table=DynamoDbLeaseTable(clients.dynamodb_client(*connection), settings.lease_table),
        stream=kinesis_stream(settings, connection),
        # A client of its own, since the lease table's hands out Scan replies as raw JSON; made at the first look: a lease
        # worker never looks, and a client is a tenth of its cold start.
        sightings=DynamoDbSightingStore(
            lambda: clients.dynamodb_client(*connection), settings.sightings_table
        ),
        clock=clock,
        tasks=ThreadTasks(),
        chance=SystemRandom(),
        metrics=EmfMetrics(settings.application, by_shard=settings.metrics_by_shard, output=output),
        log=PowertoolsLog(service, output),
        destination=_destination(settings, connection),
        reports=DynamoDbWorkerReports(lambda: clients.dynamodb_client(*connection), settings, clock),
    )


def kinesis_stream(settings: Settings, connection: Connection = MACHINE) -> KinesisStream:
    """With clients of its own."""
    client, poll_client = clients.kinesis_client(*connection), clients.kinesis_poll_client(*connection)
    return KinesisStream(client, poll_client, settings)


def _destination(settings: Settings, connection: Connection) -> FailureDestination | None:
    if settings.on_failure is None:
        return None
    from sublet.aws.failure_destinations import failure_destination  # noqa: PLC0415 - a part of each cold start

    return failure_destination(settings.on_failure, connection.session)


def with_stream_arn(settings: Settings, connection: Connection = MACHINE) -> Settings:
    """For a process that was given a stream's name alone: the ARN, which batches tell, asked of Kinesis once.

    A role that may not ask (kinesis:DescribeStreamSummary) goes on without it. Raises StreamNotFound and StreamUnavailable.
    """
    if settings.stream_arn is not None:
        return settings
    try:
        return replace(settings, stream_arn=kinesis_stream(settings, connection).identity().arn)
    except StreamAccessDenied:
        return settings
