"""The boto3 clients, made in this one place. Region, credentials and endpoints are boto3's own business,
unless a Spark query names its stream's.

Standard retry mode throughout: throttling and faults are retried with jitter, a bounded number of times, and
so are replies that were cut off on their way.
Each client's patience lets a heartbeat, or a window's last write, succeed or fail while that still matters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import boto3
from botocore.config import Config

from sublet import __version__
from sublet.aws.configuration_errors import NOT_CONFIGURED, not_configured
from sublet.aws.cut_replies import refuse_cut_replies
from sublet.errors import AwsNotConfigured

if TYPE_CHECKING:
    from boto3.session import Session
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_kinesis import KinesisClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_stepfunctions import SFNClient

CONNECTIONS = 50
"""That a client keeps open, at least. Each lease polls on one of its own; urllib3 makes and drops one for each call beyond."""
CONNECTIONS_MAX = 1_000
"""A pool of so many takes four milliseconds to make, however few are used."""


class Connection(NamedTuple):
    """Whose AWS it is, and where; None: as this machine is set up."""

    region: str | None = None
    endpoint_url: str | None = None
    session: Session | None = None
    connections: int = CONNECTIONS

    def for_leases(self, leases: int) -> Connection:
        """As many connections as a worker of so many leases polls on."""
        return self._replace(connections=min(max(CONNECTIONS, leases), CONNECTIONS_MAX))


MACHINE = Connection()


def dynamodb_client(
    region: str | None = None,
    endpoint_url: str | None = None,
    session: Session | None = None,
    connections: int = CONNECTIONS,
) -> DynamoDBClient:
    """At most some 20 s for one write that is throttled throughout: longer would outlive its lease."""
    config = _config(attempts=4, connect_timeout=2, read_timeout=5, connections=connections)
    client: DynamoDBClient = _client("dynamodb", config, region, endpoint_url, session)
    return refuse_cut_replies(client)


def kinesis_client(
    region: str | None = None,
    endpoint_url: str | None = None,
    session: Session | None = None,
    connections: int = CONNECTIONS,
) -> KinesisClient:
    """For all but GetRecords. GetShardIterator has 5 calls a second on a shard, shared by all: try often.

    What a call may leave out is Kinesis' to say: an older botocore's model knows of no record without a partition key.
    """
    config = _config(attempts=6, connect_timeout=3, read_timeout=10, connections=connections).merge(
        Config(parameter_validation=False)
    )
    client: KinesisClient = _client("kinesis", config, region, endpoint_url, session)
    return refuse_cut_replies(client)


def kinesis_poll_client(
    region: str | None = None,
    endpoint_url: str | None = None,
    session: Session | None = None,
    connections: int = CONNECTIONS,
) -> KinesisClient:
    """For GetRecords: one attempt, since a refused poll is a value and polls are repeated anyway.

    The read timeout lets 10 MB through at a shard's 2 MB/s twice over, and ends within a window's margin.
    """
    config = _config(attempts=1, connect_timeout=3, read_timeout=15, connections=connections)
    client: KinesisClient = _client("kinesis", config, region, endpoint_url, session)
    return refuse_cut_replies(client)


def s3_client(region: str | None = None, session: Session | None = None) -> S3Client:
    """For a few small reads when a Spark query has ended, and for what is set aside."""
    client: S3Client = _client(
        "s3", _config(attempts=4, connect_timeout=3, read_timeout=10), region, session=session
    )
    return client


def sqs_client(region: str | None = None, session: Session | None = None) -> SQSClient:
    """For what is set aside. A queue's own endpoint is in its region."""
    client: SQSClient = _client(
        "sqs", _config(attempts=4, connect_timeout=3, read_timeout=10), region, session=session
    )
    return client


class TopicClient(Protocol):
    """What is used of SNS' client."""

    def publish(self, **request: str) -> object: ...


def sns_client(region: str | None = None, session: Session | None = None) -> TopicClient:
    """For what is set aside."""
    client: TopicClient = _client(
        "sns", _config(attempts=4, connect_timeout=3, read_timeout=10), region, session=session
    )
    return client


def stepfunctions_client() -> SFNClient:
    """StartExecution is idempotent by name, so it may be repeated for as long as a tick has time."""
    config = _config(attempts=6, connect_timeout=3, read_timeout=15)
    client: SFNClient = _client("stepfunctions", config)
    return refuse_cut_replies(client)


def _client(
    service: Any,
    config: Config,
    region: str | None = None,
    endpoint_url: str | None = None,
    session: Session | None = None,
) -> Any:
    """Raises AwsNotConfigured."""
    try:
        made_by: Any = session or boto3
        return made_by.client(service, region_name=region, endpoint_url=endpoint_url, config=config)
    except NOT_CONFIGURED as problem:
        raise not_configured(problem) from problem
    except ValueError as problem:
        if "endpoint" not in str(problem):
            raise
        raise AwsNotConfigured(
            f"AWS cannot be called from here: {problem}; check AWS_ENDPOINT_URL, or the endpoint that was given: "
            "a URL such as http://localhost:4566"
        ) from problem


def _config(
    *, attempts: int, connect_timeout: float, read_timeout: float, connections: int = CONNECTIONS
) -> Config:
    return Config(
        retries={"mode": "standard", "total_max_attempts": attempts},
        connect_timeout=connect_timeout,
        read_timeout=read_timeout,
        max_pool_connections=connections,
        tcp_keepalive=True,
        user_agent_extra=f"sublet/{__version__}",  # so that AWS's logs can tell whose calls these are
    )
