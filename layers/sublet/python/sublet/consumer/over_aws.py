"""A process' ports over AWS, with the tables that they need: for `Consumer` and `sublet run`."""

from __future__ import annotations

from collections.abc import Callable

from sublet.aws import clients
from sublet.aws.create_tables import create_tables, require_tables
from sublet.aws.ports import aws_ports, with_stream_arn
from sublet.ports import Ports, Signal
from sublet.settings import Settings


def over_aws(
    settings: Settings, stop: Signal, *, may_create: bool, say: Callable[[str], None] | None = None
) -> tuple[Ports, Settings]:
    """The ports, and the settings with the stream's ARN. The stream comes first: no table is made for one that is not there.

    `say` is told of each table that is made; without it the log is. Raises LeaseTableNotFound unless it may create.
    """
    settings = with_stream_arn(settings)
    ports, client = aws_ports(settings, "consumer_process"), clients.dynamodb_client()
    if may_create:
        create_tables(client, settings, stop, say or ports.log.info)
    else:
        require_tables(client, settings)
    return ports, settings
