"""Makes every boto3 client. boto3 finds region, credentials and endpoints, unless a Spark query names its stream's.

All clients use standard retry mode: throttling, service faults and truncated replies are retried with jitter, a
bounded number of times.
Each client's timeouts are short enough that a heartbeat, or a window's last write, succeeds or fails while that still
matters.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import boto3
from botocore.config import Config

from sublet import __version__
from sublet.aws.configuration_errors import NOT_CONFIGURED, not_configured
from sublet.aws.credential_failures import name_provider_failures
from sublet.aws.kinesis.cut_replies import refuse_cut_replies
from sublet.aws.region_in_errors import say_region
from sublet.errors import AwsNotConfigured

if TYPE_CHECKING:
    from boto3.session import Session
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_iam import IAMClient
    from mypy_boto3_kinesis import KinesisClient
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_stepfunctions import SFNClient

CONNECTIONS = 50
"""The fewest connections in a client's pool. Each lease polls on its own; beyond the pool's size urllib3 opens and
drops a connection for each call."""
CONNECTIONS_MAX = 1_000
"""Creating a pool of this size takes four milliseconds, even if few connections are used."""

_MAKING = Lock()
"""Held while a client is made. boto3's clients are safe for threads, but its sessions are not: two threads that make a
client at once may find the default session half made, and any thread may be the first to need a client. A child that is
forked meanwhile gets a lock of its own, since the thread that holds this one stays in the parent.
"""


def _renew_lock() -> None:
    global _MAKING  # noqa: PLW0603 -- the child's own, before it has another thread
    _MAKING = Lock()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_renew_lock)


class Connection(NamedTuple):
    """Region, endpoint and credentials of a client. None: as this machine is configured."""

    region: str | None = None
    endpoint_url: str | None = None
    session: Session | None = None
    connections: int = CONNECTIONS

    def for_leases(self, leases: int) -> Connection:
        """The same connection settings, with a connection for each lease that a worker polls."""
        return self._replace(connections=min(max(CONNECTIONS, leases), CONNECTIONS_MAX))


MACHINE = Connection()


def dynamodb_client(
    region: str | None = None,
    endpoint_url: str | None = None,
    session: Session | None = None,
    connections: int = CONNECTIONS,
) -> DynamoDBClient:
    """A write that is throttled on every attempt fails after about 20 s; if it took longer, its lease would expire
    first."""
    config = _config(attempts=4, connect_timeout=2, read_timeout=5, connections=connections)
    client: DynamoDBClient = _client("dynamodb", config, region, endpoint_url, session)
    return say_region(refuse_cut_replies(client))


def kinesis_client(
    region: str | None = None,
    endpoint_url: str | None = None,
    session: Session | None = None,
    connections: int = CONNECTIONS,
) -> KinesisClient:
    """The client for every call but GetRecords. GetShardIterator allows 5 calls a second per shard, shared by all
    readers, hence the many attempts.

    Kinesis validates the parameters, because older botocore's model does not know records without a partition key.
    """
    config = _config(attempts=6, connect_timeout=3, read_timeout=10, connections=connections).merge(
        Config(parameter_validation=False)
    )
    client: KinesisClient = _client("kinesis", config, region, endpoint_url, session)
    return say_region(refuse_cut_replies(client))


def kinesis_poll_client(
    region: str | None = None,
    endpoint_url: str | None = None,
    session: Session | None = None,
    connections: int = CONNECTIONS,
) -> KinesisClient:
    """The client for GetRecords. It makes one attempt: a refused poll is a value, and the caller polls again anyway.

    The read timeout is twice what 10 MB take at a shard's 2 MB/s, and shorter than a window's margin.
    """
    config = _config(attempts=1, connect_timeout=3, read_timeout=15, connections=connections)
    client: KinesisClient = _client("kinesis", config, region, endpoint_url, session)
    return say_region(refuse_cut_replies(client))


def kinesis_put_client(
    region: str | None = None,
    endpoint_url: str | None = None,
    session: Session | None = None,
    connections: int = CONNECTIONS,
) -> KinesisClient:
    """The client for PutRecords. It makes one attempt: the producer puts again what was refused, in the order that its
    records need.

    Kinesis validates the parameters: see `kinesis_client`.
    """
    config = _config(attempts=1, connect_timeout=3, read_timeout=10, connections=connections).merge(
        Config(parameter_validation=False)
    )
    client: KinesisClient = _client("kinesis", config, region, endpoint_url, session)
    return say_region(refuse_cut_replies(client))


def s3_client(region: str | None = None, session: Session | None = None) -> S3Client:
    """The client for buckets: it writes records set aside, and makes a few small reads after a Spark query has
    ended.
    """
    client: S3Client = _client("s3", _config(attempts=4, connect_timeout=3, read_timeout=10), region, session=session)
    return client


def sqs_client(region: str | None = None, session: Session | None = None) -> SQSClient:
    """The client for records set aside in a queue. A queue's endpoint is in the queue's own region."""
    client: SQSClient = _client("sqs", _config(attempts=4, connect_timeout=3, read_timeout=10), region, session=session)
    return client


class TopicClient(Protocol):
    """The part of SNS' client that is used here."""

    def publish(self, **request: str) -> object: ...


def sns_client(region: str | None = None, session: Session | None = None) -> TopicClient:
    """The client for records set aside by a topic."""
    client: TopicClient = _client(
        "sns", _config(attempts=4, connect_timeout=3, read_timeout=10), region, session=session
    )
    return client


def cloudwatch_client(
    region: str | None = None,
    endpoint_url: str | None = None,
    session: Session | None = None,
    connections: int = CONNECTIONS,
) -> CloudWatchClient:
    """The client for commands that show figures and alarms."""
    client: CloudWatchClient = _client(
        "cloudwatch",
        _config(attempts=4, connect_timeout=3, read_timeout=15, connections=connections),
        region,
        endpoint_url,
        session,
    )
    return client


def tagging_client(
    region: str | None = None,
    endpoint_url: str | None = None,
    session: Session | None = None,
    connections: int = CONNECTIONS,
) -> Any:
    """The client that finds tables and streams by their tags."""
    return _client(
        "resourcegroupstaggingapi",
        _config(attempts=4, connect_timeout=3, read_timeout=15, connections=connections),
        region,
        endpoint_url,
        session,
    )


class SchemaVersionClient(Protocol):
    """The part of Glue's client that is used here."""

    def get_schema_version(self, **request: object) -> Mapping[str, Any]: ...


def glue_client(region: str | None = None, session: Session | None = None) -> SchemaVersionClient:
    """The client for schema versions. The handler's call waits for it, so it gives up soon."""
    client: SchemaVersionClient = _client(
        "glue", _config(attempts=4, connect_timeout=3, read_timeout=10), region, session=session
    )
    return client


def lambda_client(
    region: str | None = None,
    endpoint_url: str | None = None,
    session: Session | None = None,
    connections: int = CONNECTIONS,
) -> LambdaClient:
    """The client for the account's quota."""
    client: LambdaClient = _client(
        "lambda",
        _config(attempts=4, connect_timeout=3, read_timeout=15, connections=connections),
        region,
        endpoint_url,
        session,
    )
    return client


def iam_client(
    region: str | None = None,
    endpoint_url: str | None = None,
    session: Session | None = None,
    connections: int = CONNECTIONS,
) -> IAMClient:
    """The client for commands that ask what a role may do."""
    client: IAMClient = _client(
        "iam",
        _config(attempts=4, connect_timeout=3, read_timeout=15, connections=connections),
        region,
        endpoint_url,
        session,
    )
    return client


def cloudformation_client(session: Session | None = None) -> Any:
    """The client for what is deployed."""
    return _client("cloudformation", _config(attempts=4, connect_timeout=3, read_timeout=15), session=session)


def sts_client(session: Session | None = None) -> Any:
    """The client that asks whose credentials these are."""
    return _client("sts", _config(attempts=2, connect_timeout=3, read_timeout=5), session=session)


def stepfunctions_client() -> SFNClient:
    """StartExecution is idempotent by name, so it may be retried for as long as a tick has time."""
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
    made_by: Any = session or boto3
    try:
        with _MAKING:
            client = made_by.client(service, region_name=region, endpoint_url=endpoint_url, config=config)
        return name_provider_failures(client)
    except NOT_CONFIGURED as problem:
        raise not_configured(problem) from problem
    except ValueError as problem:
        if "endpoint" not in str(problem):
            raise
        raise AwsNotConfigured(
            f"AWS cannot be called from here: {problem}; check AWS_ENDPOINT_URL, or the endpoint that was given: "
            "a URL such as http://localhost:4566"
        ) from problem


def _config(*, attempts: int, connect_timeout: float, read_timeout: float, connections: int = CONNECTIONS) -> Config:
    return Config(
        retries={"mode": "standard", "total_max_attempts": attempts},
        connect_timeout=connect_timeout,
        read_timeout=read_timeout,
        max_pool_connections=connections,
        tcp_keepalive=True,
        user_agent_extra=f"sublet/{__version__}",  # so that AWS's logs show whose calls these are
    )
