"""`sublet run` creates missing tables like the stack's, and a consumer can use them at once."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sublet.aws.account import AwsAccount
from sublet.aws.clients import dynamodb_client
from sublet.aws.kinesis.stream import KinesisStream
from sublet.aws.tables.create_tables import create_tables, missing_tables, require_tables
from sublet.aws.tables.lease_table import DynamoDbLeaseTable
from sublet.aws.tables.sightings import DynamoDbSightingStore
from sublet.aws.tables.table_errors import RESTORE
from sublet.decisions.manager.liveness import Sighting
from sublet.errors import LeaseTableAccessDenied, LeaseTableKeyUnexpected, LeaseTableNotFound
from sublet.ports import Applied
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.lease import Lease
from sublet.protocol.lease_writes import create
from sublet.protocol.stream_info import StreamDescription
from sublet.settings import Settings
from sublet.system.threads import ThreadTasks
from sublet.testing.memory.clock import BEGINNING

from infra.local import EmbeddedAws
from tests.contract.dynamodb_tables import EMULATORS, emulated_dynamodb
from tests.contract.scripted_service import Reply, ScriptedService, error


def orders() -> Settings:
    return Settings(application=f"orders-{uuid.uuid4().hex[:8]}", stream="events")


@pytest.fixture(params=EMULATORS)
def client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    return emulated_dynamodb(request, monkeypatch)


def created(client: Any, settings: Settings) -> list[str]:
    said: list[str] = []
    create_tables(client, settings, ThreadTasks().signal(), said.append)
    return said


def test_both_tables_are_created_once_and_reported(client: Any) -> None:
    settings = orders()
    assert created(client, settings) == [
        f"created lease table {settings.lease_table}, paid per request, with point-in-time recovery",
        f"created sightings table {settings.sightings_table}, paid per request",
    ]
    assert created(client, settings) == []
    require_tables(client, settings)


def test_created_tables_equal_the_stacks(client: Any) -> None:
    settings = orders()
    created(client, settings)
    for name, key in ((settings.lease_table, "leaseKey"), (settings.sightings_table, "chunk")):
        table = client.describe_table(TableName=name)["Table"]
        assert table["KeySchema"] == [{"AttributeName": key, "KeyType": "HASH"}]
        assert table["AttributeDefinitions"] == [{"AttributeName": key, "AttributeType": "S"}]
        assert table["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
        tags = client.list_tags_of_resource(ResourceArn=table["TableArn"])["Tags"]
        assert {"Key": "sublet:application", "Value": settings.application} in tags
    backups = client.describe_continuous_backups(TableName=settings.lease_table)
    recovery = backups["ContinuousBackupsDescription"]["PointInTimeRecoveryDescription"]
    assert recovery["PointInTimeRecoveryStatus"] == "ENABLED"


def test_created_tables_can_be_used_at_once(client: Any) -> None:
    settings = orders()
    created(client, settings)
    table = DynamoDbLeaseTable(dynamodb_client(), settings.lease_table)
    assert isinstance(table.apply(create(Lease("shardId-0", TRIM_HORIZON, 0))), Applied)
    assert [lease.lease_key for lease in table.scan().leases] == ["shardId-0"]
    store = DynamoDbSightingStore(dynamodb_client, settings.sightings_table)
    store.save({"shardId-0": Sighting(1, None, BEGINNING)})
    assert list(store.load().sightings) == ["shardId-0"]


def test_a_table_of_kcl_is_left_as_it_is(client: Any) -> None:
    settings = orders()
    client.create_table(
        TableName=settings.lease_table,
        KeySchema=[{"AttributeName": "leaseKey", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "leaseKey", "AttributeType": "S"}],
        ProvisionedThroughput={"ReadCapacityUnits": 5, "WriteCapacityUnits": 5},
    )
    client.get_waiter("table_exists").wait(TableName=settings.lease_table, WaiterConfig={"Delay": 1})
    assert [table.name for table in missing_tables(client, settings)] == [settings.sightings_table]
    assert len(created(client, settings)) == 1
    table = client.describe_table(TableName=settings.lease_table)["Table"]
    assert table["ProvisionedThroughput"]["ReadCapacityUnits"] == 5


def test_no_table_is_created_beside_one_of_somebody_else(client: Any) -> None:
    settings = orders()
    client.create_table(
        TableName=settings.lease_table,
        KeySchema=[{"AttributeName": "order_id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "order_id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    client.get_waiter("table_exists").wait(TableName=settings.lease_table, WaiterConfig={"Delay": 1})
    with pytest.raises(LeaseTableKeyUnexpected, match=rf"{settings.lease_table} is not a lease table.*leaseKey"):
        created(client, settings)
    with pytest.raises(LeaseTableKeyUnexpected):
        require_tables(client, settings)
    assert client.list_tables()["TableNames"].count(settings.sightings_table) == 0


def test_missing_tables_are_named_without_leave_to_create_them(client: Any) -> None:
    settings = orders()
    with pytest.raises(LeaseTableNotFound) as refused:
        require_tables(client, settings)
    assert str(refused.value) == (
        f"there is no lease table {settings.lease_table} in region {client.meta.region_name} of this account; "
        "check the region (AWS_DEFAULT_REGION) and the account, or make it: Consumer.create(), "
        f"or `sublet run` without --no-create. {RESTORE}"
    )
    assert len(missing_tables(client, settings)) == 2


def test_a_deleted_lease_table_is_not_created_again_empty(client: Any) -> None:
    """It would begin at start_position: at LATEST, past all unhandled records."""
    settings = orders()
    created(client, settings)
    DynamoDbSightingStore(dynamodb_client, settings.sightings_table).save({"shardId-0": Sighting(1, None, BEGINNING)})
    client.delete_table(TableName=settings.lease_table)
    client.get_waiter("table_not_exists").wait(TableName=settings.lease_table, WaiterConfig={"Delay": 1})
    with pytest.raises(
        LeaseTableNotFound, match=rf"{settings.lease_table} is missing, .*restore it from DynamoDB's backup"
    ):
        created(client, settings)
    assert settings.lease_table not in client.list_tables()["TableNames"]
    client.delete_table(TableName=settings.sightings_table)
    client.get_waiter("table_not_exists").wait(TableName=settings.sightings_table, WaiterConfig={"Delay": 1})
    assert len(created(client, settings)) == 2, "the operator has deleted the sightings to start again"


class Waits:
    """A Signal that counts its waits, and is set from the given wait on."""

    def __init__(self, set_after: int = 1_000) -> None:
        self.waits: list[timedelta] = []
        self.set_after = set_after

    def set(self) -> None: ...

    def is_set(self) -> bool:
        return False

    def wait(self, timeout: timedelta) -> bool:
        self.waits.append(timeout)
        return len(self.waits) >= self.set_after

    def on_set(self, callback: Callable[[], None]) -> Callable[[], None]:
        return callback


@pytest.fixture
def no_lease_table(service: ScriptedService) -> ScriptedService:
    """The sightings table exists."""
    service.will("GetItem", error("ResourceNotFoundException"))
    service.will("Scan", {"Count": 0, "ScannedCount": 0})
    service.will("CreateTable", {"TableDescription": {"TableStatus": "CREATING"}})
    service.will("DescribeTable", {"Table": {"TableStatus": "ACTIVE"}})
    service.will("UpdateContinuousBackups", {})
    return service


A_STREAM = {
    "StreamName": "events",
    "StreamARN": "arn:aws:kinesis:us-east-1:123456789012:stream/events",
    "StreamStatus": "ACTIVE",
    "StreamCreationTimestamp": 1_700_000_000,
    "RetentionPeriodHours": 24,
    "EnhancedMonitoring": [],
    "OpenShardCount": 1,
}


def test_role_without_getitem_on_sightings_still_begins(service: ScriptedService) -> None:
    """Roles of 0.2 are like this: the stream's ARN is then requested from Kinesis."""
    denied = error("AccessDeniedException", "not authorized to perform: dynamodb:GetItem")
    service.will("GetItem", denied, {})
    service.will("ListShards", {"Shards": []})
    service.will("Scan", {"Count": 0, "ScannedCount": 0}, {"Items": []})
    service.will("PutItem", {}, {})
    service.will("DescribeStreamSummary", {"StreamDescriptionSummary": A_STREAM})
    _, settings = AwsAccount().compose(Settings(application="orders", stream="events"), Waits(), may_create=False)
    assert settings.stream_arn == A_STREAM["StreamARN"]


@pytest.mark.emulator
def test_processes_that_begin_together_describe_the_stream_once(
    embedded_aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream is not stored yet, and there is no table: an account has 20 descriptions a second for all of its
    consumers.

    Not on moto, which judges and writes in two steps, so that two writers may both win.
    """
    for name, value in embedded_aws.environment.items():
        monkeypatch.setenv(name, value)
    settings, asked = orders(), Counter[str]()
    AwsAccount().create(settings.application, 1)
    settings = replace(settings, stream=settings.application)
    describe = KinesisStream.describe

    def counted(stream: KinesisStream) -> StreamDescription:
        asked["descriptions"] += 1
        return describe(stream)

    monkeypatch.setattr(KinesisStream, "describe", counted)
    stop = ThreadTasks().signal()

    def begin(_: int) -> str | None:
        return AwsAccount().compose(settings, stop, may_create=True)[1].stream_arn

    with ThreadPoolExecutor(8) as pool:
        arns = set(pool.map(begin, range(24)))
    assert len(arns) == 1
    assert None not in arns
    assert asked["descriptions"] == 1


def said_with(stop: Waits) -> list[str]:
    said: list[str] = []
    create_tables(dynamodb_client(), Settings(application="orders", stream="events"), stop, said.append)
    return said


def test_table_created_by_another_process_meanwhile_is_waited_for(
    no_lease_table: ScriptedService,
) -> None:
    no_lease_table.will("CreateTable", error("ResourceInUseException"))
    assert said_with(Waits()) == ["lease table orders: another process has just created it"]
    assert no_lease_table.asked("DescribeTable")
    assert not no_lease_table.asked("UpdateContinuousBackups")


def test_backups_are_asked_for_until_dynamodb_is_ready_for_them(no_lease_table: ScriptedService) -> None:
    unready = error("ContinuousBackupsUnavailableException")
    no_lease_table.will("UpdateContinuousBackups", unready, unready, {})
    stop = Waits()
    assert said_with(stop) == ["created lease table orders, paid per request, with point-in-time recovery"]
    assert len(stop.waits) == 2


@pytest.mark.parametrize(
    ("reply", "stop", "why"),
    [
        (error("AccessDeniedException", "not yours"), Waits(), "not yours"),
        (error("ContinuousBackupsUnavailableException"), Waits(), "switch it on later"),
        (error("ContinuousBackupsUnavailableException"), Waits(set_after=1), "stopped"),
    ],
)
def test_a_consumer_runs_without_backups_but_not_without_a_word(
    no_lease_table: ScriptedService, reply: Reply, stop: Waits, why: str
) -> None:
    no_lease_table.will("UpdateContinuousBackups", reply)
    (said,) = said_with(stop)
    assert "no point-in-time recovery: " in said
    assert why in said


def test_a_role_that_may_not_create_tables_gets_an_error_that_says_so(
    no_lease_table: ScriptedService,
) -> None:
    no_lease_table.will("CreateTable", error("AccessDeniedException", "not authorized: dynamodb:CreateTable"))
    with pytest.raises(LeaseTableAccessDenied, match=r"lease table orders: .*dynamodb:CreateTable.*grant it"):
        said_with(Waits())
