"""The options that all clients share, and the one-sentence error of a process that is not configured for AWS."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from threading import Event, Lock, Thread
from typing import Any

import boto3
import botocore.session
import pytest
import sublet
from botocore.credentials import RefreshableCredentials
from botocore.exceptions import ClientError, RefreshWithMFAUnsupportedError
from sublet.aws import clients
from sublet.aws.kinesis.errors import stream_error
from sublet.aws.kinesis.stream import KinesisStream
from sublet.aws.ports import aws_ports
from sublet.aws.set_aside.failure_destinations import set_aside_store
from sublet.aws.tables.lease_table import DynamoDbLeaseTable
from sublet.aws.tables.table_errors import named_table_errors
from sublet.decisions.patience import may_pass
from sublet.errors import AwsNotConfigured, DestinationRefused, LeaseTableAccessDenied, LeaseTableError
from sublet.settings import Settings

CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE")
REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine without any AWS configuration."""
    for variable in (*CREDENTIALS, *REGIONS):
        monkeypatch.delenv(variable, raising=False)
    for variable in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(variable, "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return monkeypatch


@pytest.mark.parametrize(
    "failure",
    [
        FileNotFoundError(2, "No such file or directory", "/var/run/secrets/token"),
        json.JSONDecodeError("Expecting value", "", 0),
        RefreshWithMFAUnsupportedError(),
        None,  # refreshed, and past its time by this machine's clock: botocore raises RuntimeError
    ],
    ids=lambda failure: type(failure).__name__,
)
def test_a_credential_provider_that_fails_in_its_own_way_may_pass(failure: Exception | None) -> None:
    long_ago = datetime(2020, 1, 1, tzinfo=UTC)

    def refreshed() -> dict[str, str]:
        if failure is not None:
            raise failure
        return {"access_key": "a", "secret_key": "b", "token": "c", "expiry_time": long_ago.isoformat()}

    session: Any = botocore.session.Session()
    session._credentials = RefreshableCredentials("a", "b", "c", long_ago, refreshed, "test")
    client = clients.dynamodb_client("us-east-1", "http://127.0.0.1:9", boto3.Session(botocore_session=session))
    with pytest.raises(AwsNotConfigured) as problem, named_table_errors("lease table", "orders", "leaseKey"):
        client.get_item(TableName="orders", Key={"leaseKey": {"S": "shardId-0"}})
    assert may_pass(problem.value)


def test_the_user_agent_has_our_version(bare: pytest.MonkeyPatch) -> None:
    config: Any = clients.dynamodb_client("us-east-1").meta.config
    assert config.user_agent_extra == f"sublet/{sublet.__version__}"


@pytest.mark.parametrize(
    ("service", "limits", "connections"),
    [
        ("lease_manager", {}, 50),
        ("lease_worker", {}, 50),
        ("lease_worker", {"leases_per_worker": 200}, 200),
        ("consumer_process", {"max_leases_for_worker": 300}, 300),
        ("consumer_process", {}, 1_000),
    ],
)
def test_each_lease_of_a_worker_polls_on_a_connection_of_its_own(
    bare: pytest.MonkeyPatch, service: str, limits: dict[str, Any], connections: int
) -> None:
    """urllib3 opens and drops a connection for each call beyond its pool's size."""
    bare.setenv("AWS_DEFAULT_REGION", "us-east-1")
    ports: Any = aws_ports(Settings(application="orders", stream="events", **limits), service)
    for client in (ports.stream._client, ports.stream._poll_client, ports.table._client):
        assert client.meta.config.max_pool_connections == connections


@pytest.mark.parametrize("make", [clients.dynamodb_client, clients.kinesis_client, clients.kinesis_poll_client])
def test_missing_region_error_says_how_to_set_one(bare: pytest.MonkeyPatch, make: Callable[[], object]) -> None:
    with pytest.raises(AwsNotConfigured, match=r"there is no AWS region; set (AWS_[A-Z_]+)") as refused:
        make()
    advised = re.search(r"set (AWS_[A-Z_]+)", str(refused.value))
    assert advised is not None
    bare.setenv(advised[1], "us-east-1")
    make()


def test_missing_credentials_error_says_how_to_get_some(bare: pytest.MonkeyPatch) -> None:
    bare.setenv("AWS_REGION", "us-east-1")
    bare.setenv("AWS_DEFAULT_REGION", "us-east-1")
    table = DynamoDbLeaseTable(clients.dynamodb_client(), "orders")
    with pytest.raises(AwsNotConfigured, match="there are no AWS credentials; log in"):
        table.scan()
    stream = KinesisStream(
        clients.kinesis_client(),
        clients.kinesis_poll_client(),
        Settings(application="orders", stream="events"),
    )
    with pytest.raises(AwsNotConfigured, match="there are no AWS credentials"):
        stream.list_shards()


def test_a_profile_that_is_not_there_is_named(bare: pytest.MonkeyPatch) -> None:
    bare.setenv("AWS_PROFILE", "orders-prod")
    with pytest.raises(AwsNotConfigured, match=r"orders-prod.*check AWS_PROFILE"):
        clients.dynamodb_client("us-east-1")


@pytest.mark.parametrize("code", ["ExpiredTokenException", "UnrecognizedClientException"])
def test_credentials_that_aws_refuses_are_no_fault_of_the_stream_or_the_table(code: str) -> None:
    error = ClientError({"Error": {"Code": code, "Message": "The token has expired"}}, "Scan")
    with (
        pytest.raises(AwsNotConfigured, match=r"The token has expired.*log in again"),
        named_table_errors("lease table", "orders", "leaseKey"),
    ):
        raise error
    assert isinstance(stream_error(error, "events"), AwsNotConfigured)


@pytest.mark.parametrize("code", ["ReplicatedWriteConflictException", "TransactionConflictException", "OfNextYear"])
def test_a_code_that_nobody_knows_is_an_error_of_the_table(code: str) -> None:
    """A raw ClientError would be taken for a fault of sublet's own, and end the process."""
    with (
        pytest.raises(LeaseTableError, match=code) as refused,
        named_table_errors("lease table", "orders", "leaseKey"),
    ):
        raise ClientError({"Error": {"Code": code, "Message": "said"}}, "UpdateItem")
    assert may_pass(refused.value)


def test_a_denied_table_is_a_named_error() -> None:
    said: Any = {"Error": {"Code": "AccessDeniedException", "Message": "not authorized to perform dynamodb:Scan"}}
    with (
        pytest.raises(LeaseTableAccessDenied, match=r"lease table orders.*dynamodb:Scan.*grant it to this role"),
        named_table_errors("lease table", "orders", "leaseKey"),
    ):
        raise ClientError(said, "Scan")


def test_an_endpoint_that_is_no_url_is_named(bare: pytest.MonkeyPatch) -> None:
    with pytest.raises(AwsNotConfigured, match=r"nonsense.*; check AWS_ENDPOINT_URL"):
        clients.dynamodb_client("us-east-1", "nonsense")


def test_a_destination_without_credentials_says_how_to_get_some(bare: pytest.MonkeyPatch) -> None:
    store = set_aside_store("arn:aws:sqs:us-east-1:123456789012:given-up")
    assert store is not None
    with pytest.raises(DestinationRefused, match="there are no AWS credentials; log in"):
        store.counted()


class SessionOfOneThread:
    """As boto3's: two threads that make a client of it at once may find it half made. `met`: whether two did."""

    def __init__(self) -> None:
        self._inside = Lock()
        self._second = Event()
        self.met = False

    def client(self, *_: object, **__: object) -> object:
        if not self._inside.acquire(blocking=False):
            self.met = True
            self._second.set()
            return object()
        self._second.wait(0.3)
        self._inside.release()
        return object()


FORKS = """
import os, signal
from sublet.aws import clients

with clients._MAKING:
    child = os.fork()
    if not child:
        signal.alarm(60)  # ends a child that waits for ever
        clients.kinesis_put_client("eu-west-1")
        os._exit(0)
_, status = os.waitpid(child, 0)
raise SystemExit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows does not fork")
def test_a_child_forked_while_a_client_is_made_makes_its_own() -> None:
    assert subprocess.run([sys.executable, "-c", FORKS], check=False, timeout=120).returncode == 0


def test_clients_are_created_by_one_thread_at_a_time() -> None:
    session: Any = SessionOfOneThread()
    other = Thread(target=lambda: clients.sqs_client("us-east-1", session))
    other.start()
    clients.sqs_client("us-east-1", session)
    other.join()
    assert not session.met
