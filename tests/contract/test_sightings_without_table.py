"""The sightings table deleted under a fleet: it is made again only beside leases, and without it the fleet goes on."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError
from sublet.aws.clients import dynamodb_client
from sublet.aws.tables.create_tables import create_tables, require_tables
from sublet.aws.tables.lease_table import DynamoDbLeaseTable
from sublet.aws.tables.sightings_without_table import LastingSightings
from sublet.decisions.manager.dispatching import DispatchedWorker
from sublet.decisions.manager.liveness import Sighting
from sublet.errors import LeaseTableNotFound
from sublet.ports import Remembered
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.lease import Lease, LeaseFence
from sublet.protocol.lease_writes import create
from sublet.settings import Settings
from sublet.system.threads import ThreadTasks
from sublet.testing.memory import MemoryLog
from sublet.testing.memory.clock import BEGINNING

pytestmark = pytest.mark.emulator

SHARD = "shardId-000000000000"
SEEN = {SHARD: Sighting(7, "worker-0", BEGINNING)}
SETTINGS = Settings(application="orders", stream="events")


@pytest.fixture
def client(moto_aws: None) -> Any:
    """The tables of a fleet that has worked, with one lease."""
    client = dynamodb_client()
    create_tables(client, SETTINGS, ThreadTasks().signal(), lambda _: None)
    DynamoDbLeaseTable(dynamodb_client(), SETTINGS.lease_table).apply(create(Lease(SHARD, TRIM_HORIZON, 0)))
    return client


def lose(client: Any, *tables: str) -> None:
    for name in tables:
        client.delete_table(TableName=name)


def a_store(client: Any, log: MemoryLog | None = None, *, may_make: bool = False) -> LastingSightings:
    return LastingSightings(lambda: client, SETTINGS, log or MemoryLog(), may_make=may_make)


def test_process_recreates_the_sightings_table_from_its_memory(client: Any) -> None:
    log = MemoryLog()
    store = a_store(client, log, may_make=True)
    store.save(SEEN)
    store.load()
    lose(client, SETTINGS.sightings_table)
    assert store.load().sightings == SEEN
    assert SETTINGS.sightings_table in client.list_tables()["TableNames"]
    assert store.load().sightings == SEEN
    store.save(SEEN)
    assert a_store(client).load().sightings == SEEN, "others find it there"
    assert log.messages("warning") == ["sightings table is missing; continuing with what this process remembers"]
    assert log.lines[0].fields["made_again"] == "yes"
    assert log.messages("info") == ["sightings table is back"]


def test_process_without_leave_goes_on_without_the_sightings_table(client: Any) -> None:
    log = MemoryLog()
    store = a_store(client, log)
    lose(client, SETTINGS.sightings_table)
    dispatched = {SHARD: DispatchedWorker(LeaseFence(SHARD, None, 0), "worker-0", is_steal=False, at=BEGINNING)}
    for _ in range(2):
        seen = store.load()
        store.save(SEEN)
        assert store.keep_dispatched(dispatched, seen.round)
    assert (store.load().sightings, store.load().dispatched) == (SEEN, dispatched)
    assert SETTINGS.sightings_table not in client.list_tables()["TableNames"]
    assert len(log.lines) == 1
    assert log.lines[0].fields["made_again"] == "no: this process may not make tables"


class Denied:
    """The client of a role that may not make tables."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.tries = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def create_table(self, **_: object) -> None:
        self.tries += 1
        raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "not you"}}, "CreateTable")


def test_a_role_without_the_permission_tries_once_and_goes_on(client: Any) -> None:
    denied, log = Denied(client), MemoryLog()
    store = a_store(denied, log, may_make=True)
    lose(client, SETTINGS.sightings_table)
    for _ in range(3):
        store.save(SEEN)
        assert store.load().sightings == SEEN
    assert denied.tries == 1
    assert ["not you" in str(line.fields["made_again"]) for line in log.lines] == [True]


def test_sightings_table_is_not_recreated_without_leases(client: Any) -> None:
    client.delete_item(TableName=SETTINGS.lease_table, Key={"leaseKey": {"S": SHARD}})
    store = a_store(client, may_make=True)
    lose(client, SETTINGS.sightings_table)
    with pytest.raises(LeaseTableNotFound, match="no sightings table"):
        store.load()
    assert SETTINGS.sightings_table not in client.list_tables()["TableNames"]
    with pytest.raises(LeaseTableNotFound):
        require_tables(client, SETTINGS)


def test_both_tables_are_not_recreated_under_a_fleet(client: Any) -> None:
    store = a_store(client, may_make=True)
    lose(client, SETTINGS.sightings_table, SETTINGS.lease_table)
    with pytest.raises(LeaseTableNotFound):
        store.load()
    assert client.list_tables()["TableNames"] == []


def test_replacement_without_leave_starts_without_the_sightings_table(client: Any) -> None:
    lose(client, SETTINGS.sightings_table)
    require_tables(client, SETTINGS)
    assert a_store(client).load() == Remembered({})
