"""A context's promises, over memory, moto and the embedded AWS: streams and consumers are created, changed, inspected
and deleted.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from sublet import Context, LeaseTableError, StreamError, connect
from sublet.aws.account import AwsAccount
from sublet.errors import (
    LeaseTableAccessDenied,
    LeaseTableKeyUnexpected,
    LeaseTableNotFound,
    StreamExists,
    StreamNotFound,
)
from sublet.operate import applications as operate
from sublet.operate.cli.main import main
from sublet.operate.cli.monitor import applications
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import encode_row
from sublet.protocol.stream_info import StreamMode
from sublet.settings import Settings
from sublet.settings.value import TAG
from sublet.testing.memory import FakeClock, MemoryAccount
from sublet.testing.turn_taking import TurnTaking

from tests.contract.dynamodb_tables import create_table

DAY = timedelta(days=1)
QUICK: dict[str, Any] = {"failover_time": timedelta(seconds=3), "heartbeat_interval": timedelta(seconds=1)}


@pytest.fixture(
    params=[
        "memory",
        pytest.param("moto", marks=[pytest.mark.emulator, pytest.mark.slow]),
        pytest.param("embedded", marks=[pytest.mark.emulator, pytest.mark.slow]),
    ]
)
def context(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Context:
    if request.param == "memory":
        clock = FakeClock()
        return Context(MemoryAccount(clock=clock, tasks=TurnTaking(clock)))
    if request.param == "moto":
        request.getfixturevalue("moto_aws")
        return connect()
    variables = request.getfixturevalue("embedded_aws").environment
    keys = (variables["AWS_ACCESS_KEY_ID"], variables["AWS_SECRET_ACCESS_KEY"])
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_KINESIS"):
        monkeypatch.setenv(name, variables[name])
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)  # the arguments must count
    return connect(boto3.session.Session(*keys), region="us-east-1")


def test_an_endpoint_that_is_given_is_that_of_kinesis_and_of_dynamodb(moto_aws: None) -> None:
    account: Any = connect(endpoint="http://127.0.0.1:4566", region="eu-west-1").account
    for client in (account._kinesis, account._dynamodb):
        assert (client.meta.endpoint_url, client.meta.region_name) == ("http://127.0.0.1:4566", "eu-west-1")


@pytest.fixture
def orders() -> str:
    return f"orders-{uuid.uuid4().hex[:8]}"


def test_a_stream_from_its_making_to_its_end(context: Context, orders: str) -> None:
    stream = context.create_stream(orders, shards=1)
    assert orders in context.streams()
    info = context.stream(stream.info().identity.arn).info()
    assert (info.name, info.mode, info.open_shards) == (orders, StreamMode.PROVISIONED, 1)
    assert (info.retention, info.key) == (DAY, None)
    with pytest.raises(StreamExists):
        context.create_stream(orders)
    context.update_stream(orders, shards=2, retention=2 * DAY)
    assert (stream.info().open_shards, stream.info().retention) == (2, 2 * DAY)
    context.update_stream(orders, key="alias/aws/kinesis")
    assert "kinesis" in (stream.info().key or "")
    context.update_stream(orders, key="", retention=DAY)
    assert (stream.info().key, stream.info().retention) == (None, DAY)
    assert context.account_info().shard_limit > 0
    context.delete_stream(orders)
    with pytest.raises(StreamNotFound):
        context.stream(orders)


def test_a_record_is_put_and_got_by_its_number(context: Context, orders: str) -> None:
    stream = context.create_stream(orders, shards=1)
    put = stream.put("customer-7", b"first")
    stream.put("customer-7", b"second", explicit_hash_key="0")
    (record,) = stream.get(*put_place(put))
    assert (record.data, record.partition_key) == (b"first", "customer-7")
    with pytest.raises(StreamError):
        stream.get("shardId-000000000099", put.sequence_number)
    context.delete_stream(orders)


def test_a_record_over_the_streams_own_limit_is_refused_by_that_limits_name(
    context: Context, orders: str, request: pytest.FixtureRequest
) -> None:
    stream = context.create_stream(orders, shards=1)
    assert stream.info().max_record_kib == 1024
    stream.put("k", bytes(2**20 - 1))
    if request.node.callspec.params["context"] != "moto":  # moto accepts it
        with pytest.raises(StreamError, match=r"1,048,578 bytes: its MaxRecordSizeInKiB is 1,024") as refused:
            stream.put("k", bytes(2**20 + 1))  # kinesis-local does not count the key
        assert orders in str(refused.value)
    context.delete_stream(orders)


def put_place(put: Any) -> tuple[str, str]:
    return put.shard_id, put.sequence_number


def test_a_consumer_from_its_making_to_its_end(context: Context, orders: str) -> None:
    stream = context.create_stream(orders, shards=1)
    stream.put("customer-7", b"first")
    name = f"{orders}-audit"
    with pytest.raises(LeaseTableNotFound):
        stream.consumer(name, **QUICK).next()
    with pytest.raises(LeaseTableNotFound):
        stream.update_consumer(name, **QUICK)
    assert stream.consumers() == []
    consumer = stream.create_consumer(name, **QUICK)
    assert stream.consumers() == [name]
    with consumer:
        record = consumer.next()
        assert record is not None
        assert record.ack()
    assert [shard.owner for shard in context.consumer(orders, name).info().shards] == [None]
    stream.delete_consumer(name)
    assert stream.consumers() == []
    with pytest.raises(LeaseTableNotFound):
        stream.delete_consumer(name)
    context.delete_stream(orders)


def test_another_application_s_table_is_not_deleted(context: Context, orders: str) -> None:
    if isinstance(context.account, MemoryAccount):
        pytest.skip("there are no other tables in memory")
    stream = context.create_stream(orders, shards=1)
    account: Any = context.account
    create_table(account._dynamodb, f"{orders}-invoices", "invoice")
    with pytest.raises(LeaseTableKeyUnexpected, match="its key is invoice"):
        stream.delete_consumer(f"{orders}-invoices")
    other = context.create_stream(f"{orders}-2", shards=1)
    other.create_consumer(f"{orders}-audit", **QUICK)
    with pytest.raises(StreamError, match="delete it there"):
        stream.delete_consumer(f"{orders}-audit")
    other.delete_consumer(f"{orders}-audit")
    with pytest.raises(LeaseTableError):
        other.consumer(f"{orders}-audit").info()


def test_every_lease_table_of_an_account_is_an_application_and_nothing_else_is(moto_aws: None) -> None:
    """By the tables' key: a Java KCL's, which has no sightings, is one too."""
    client = boto3.client("dynamodb")
    name = f"orders-{uuid.uuid4().hex[:8]}"
    for table, key in ((name, "leaseKey"), (f"{name}-java", "leaseKey"), (f"{name}-users", "id")):
        create_table(client, table, key)
    create_table(client, f"{name}-sightings", "chunk")
    row = encode_row(Lease("shardId-000000000000", TRIM_HORIZON, 7, "host:java-1"))
    client.put_item(TableName=f"{name}-java", Item=row)
    client.put_item(TableName=f"{name}-sightings", Item={"chunk": {"S": "control"}})
    account = AwsAccount()
    assert {name, f"{name}-java", f"{name}-users", f"{name}-sightings"} <= set(account.tables())
    assert account.application_rows(f"{name}-users") is None
    assert account.application_rows(f"{name}-sightings") is None
    java = account.application_rows(f"{name}-java")
    assert java is not None
    assert ([lease.lease_owner for lease in java.scan.leases], java.remembered) == (["host:java-1"], None)
    ours = account.application_rows(name)
    assert ours is not None
    assert (ours.scan.leases, ours.control) == ((), None)
    assert ours.problem is not None
    assert "control item" in ours.problem
    with pytest.raises(LeaseTableNotFound):
        account.application_rows(f"{name}-none")


def test_tables_are_chosen_by_the_tag_that_consumers_give_them() -> None:
    clock = FakeClock()
    context = Context(MemoryAccount(clock=clock, tasks=TurnTaking(clock)))
    context.create_stream("events", shards=1)
    for name in ("orders", "billing"):
        context.stream("events").create_consumer(name, **QUICK)
    account: Any = context.account
    assert list(account.tables({TAG: "orders"})) == ["orders", "orders-sightings"]
    assert list(account.tables({TAG: None})) == list(account.tables())
    assert list(account.tables({TAG: None, "team": None})) == []
    found = operate.applications(account, Settings(application="any", stream="-"), {TAG: "billing"})
    assert [each.name for each in found] == ["billing"]


@pytest.fixture
def tagging(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[AwsAccount, Stubber]]:
    """Replies of the Resource Groups Tagging API, for which moto has no tables, checked against botocore's model."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    account = AwsAccount()
    with Stubber(account._tagging) as stubber:
        yield account, stubber


TABLES = "arn:aws:dynamodb:us-east-1:123456789012:table/"


def test_tagged_tables_are_asked_for_page_by_page_and_come_in_order(
    tagging: tuple[AwsAccount, Stubber],
) -> None:
    account, stubber = tagging
    asked = {
        "ResourceTypeFilters": ["dynamodb:table"],
        "TagFilters": [{"Key": TAG}, {"Key": "team", "Values": ["orders"]}],
    }
    pages = (("orders", "next"), ("audit", ""))
    for (name, after), before in zip(pages, ({}, {"PaginationToken": "next"}), strict=True):
        reply = {
            "PaginationToken": after,
            "ResourceTagMappingList": [{"ResourceARN": f"{TABLES}{name}", "Tags": []}],
        }
        stubber.add_response("get_resources", reply, {**asked, **before})
    assert list(account.tables({TAG: None, "team": "orders"})) == ["audit", "orders"]
    stubber.assert_no_pending_responses()


def test_a_role_that_may_not_ask_for_tags_is_told_the_action(tagging: tuple[AwsAccount, Stubber]) -> None:
    account, stubber = tagging
    said = "User: x is not authorized to perform: tag:GetResources"
    stubber.add_client_error("get_resources", "AccessDeniedException", said)
    with pytest.raises(LeaseTableAccessDenied, match="tag:GetResources"):
        list(account.tables({TAG: None}))


def test_applications_says_that_no_table_has_the_tags(
    monkeypatch: pytest.MonkeyPatch, tagging: tuple[AwsAccount, Stubber], capsys: pytest.CaptureFixture[str]
) -> None:
    account, stubber = tagging
    monkeypatch.setattr("sublet.aws.account.AwsAccount", lambda: account)
    example = "sublet applications --tag team=orders --tag sublet:application"
    assert example in applications.EXAMPLES
    asked = {
        "ResourceTypeFilters": ["dynamodb:table"],
        "TagFilters": [{"Key": "team", "Values": ["orders"]}, {"Key": TAG}],
    }
    stubber.add_response("get_resources", {"ResourceTagMappingList": []}, asked)
    assert main(example.split()[1:]) == 0
    assert "no lease table of this account and region has these tags" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["applications", "--tag", "=orders"])
    assert "has no name" in capsys.readouterr().err


@pytest.mark.parametrize("example", ["sublet applications", "sublet applications --unhealthy --json"])
def test_the_examples_of_sublet_applications_run(
    example: str, moto_aws: None, capsys: pytest.CaptureFixture[str]
) -> None:
    create_table(boto3.client("dynamodb"), "orders-audit", "leaseKey")
    assert example in applications.EXAMPLES
    assert main(example.split()[1:]) == 0
    assert ("orders-audit" in capsys.readouterr().out) is ("--unhealthy" not in example)
