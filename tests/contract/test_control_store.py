"""The ControlStore port's promises, for both implementations."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from sublet.aws.clients import dynamodb_client
from sublet.aws.tables.control import CONTROL, DynamoDbControlStore
from sublet.aws.tables.sightings import DATA, KEY, ROUND, DynamoDbSightingStore
from sublet.decisions.manager.liveness import Sighting
from sublet.errors import ControlUnreadable, LeaseTableNotFound
from sublet.ports import ControlStore
from sublet.protocol.control import NO_CONTROL, Control, Order, Pause, encode_control
from sublet.system.clock import SystemClock
from sublet.testing.memory.clock import BEGINNING
from sublet.testing.memory.stores import MemoryControlStore

from tests.contract.dynamodb_tables import EMULATORS, emulated_dynamodb, sightings_table

PAUSED = Control(
    Pause(Order.DRAIN, BEGINNING, "anna@desk"),
    {"shardId-1": Pause(Order.PAUSE, BEGINNING, "arn:aws:iam::1:user/bo", BEGINNING + timedelta(hours=1))},
)


@pytest.fixture(params=["memory", *EMULATORS])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ControlStore:
    if request.param == "memory":
        return MemoryControlStore()
    client = emulated_dynamodb(request, monkeypatch)
    return DynamoDbControlStore(lambda: client, sightings_table(client))


def test_control_is_empty_at_first(store: ControlStore) -> None:
    assert store.control() == NO_CONTROL


def test_control_store_tells_when_it_answered(store: ControlStore) -> None:
    if isinstance(store, MemoryControlStore):
        store = MemoryControlStore(lambda: BEGINNING)
        store.control()
        assert store.answered_at == BEGINNING
        return
    store.control()
    assert store.answered_at is not None
    assert abs(store.answered_at - SystemClock().now()) < timedelta(minutes=1)


def test_control_is_read_back_with_the_next_round(store: ControlStore) -> None:
    assert store.keep_control(PAUSED)
    assert store.control() == replace(PAUSED, round=1)
    assert store.keep_control(Control(round=1))
    assert store.control() == Control(round=2)


def test_control_is_replaced_by_one_of_two_operators(store: ControlStore) -> None:
    read = store.control()
    assert store.keep_control(replace(PAUSED, round=read.round))
    assert not store.keep_control(replace(read, leases={"shardId-7": PAUSED.leases["shardId-1"]}))
    assert store.control() == replace(PAUSED, round=1)


def test_replace_unreadable_empties_only_an_unreadable_control(store: ControlStore) -> None:
    store.keep_control(PAUSED)
    store.replace_unreadable()
    assert store.control() == replace(PAUSED, round=1)
    _damage(store)
    with pytest.raises(ControlUnreadable):
        store.control()
    assert not store.keep_control(replace(PAUSED, round=5))
    store.replace_unreadable()
    assert store.control() == NO_CONTROL
    assert store.keep_control(PAUSED)


def _damage(store: ControlStore) -> None:
    if isinstance(store, MemoryControlStore):
        store.damage()
        return
    assert isinstance(store, DynamoDbControlStore)
    item: dict[str, Any] = {KEY: {"S": CONTROL}, DATA: {"B": b"no zlib"}, ROUND: {"N": "9"}}
    dynamodb_client().put_item(TableName=store._table, Item=item)


@pytest.mark.usefixtures("moto_aws")
def test_ticks_leave_the_control_in_place() -> None:
    client = dynamodb_client()
    table = sightings_table(client)
    sightings, control = (
        DynamoDbSightingStore(lambda: client, table),
        DynamoDbControlStore(lambda: client, table),
    )
    control.keep_control(PAUSED)
    sightings.save({"shardId-1": Sighting(1, None, BEGINNING)})
    assert set(sightings.load().sightings) == {"shardId-1"}
    sightings.save({})
    assert control.control() == replace(PAUSED, round=1)


@pytest.mark.usefixtures("moto_aws")
@pytest.mark.parametrize(
    "item",
    [
        {},
        {DATA: {"B": encode_control(PAUSED)}},
        {DATA: {"S": "text"}, ROUND: {"N": "1"}},
        {DATA: {"B": b""}, ROUND: {"N": "1"}},
    ],
)
def test_a_damaged_item_says_what_to_do(item: Any) -> None:
    client = dynamodb_client()
    table = sightings_table(client)
    client.put_item(TableName=table, Item={KEY: {"S": CONTROL}, **item})
    with pytest.raises(ControlUnreadable, match="resume --force"):
        DynamoDbControlStore(lambda: client, table).control()


@pytest.mark.usefixtures("moto_aws")
def test_a_refusal_by_our_own_write_is_a_success() -> None:
    """botocore repeats a call whose response was lost."""
    client = dynamodb_client()
    store = DynamoDbControlStore(lambda: client, sightings_table(client))
    assert store.keep_control(PAUSED)
    assert store.keep_control(PAUSED)
    assert store.control() == replace(PAUSED, round=1)


@pytest.mark.usefixtures("moto_aws")
def test_control_store_raises_lease_table_not_found_without_its_table() -> None:
    client = dynamodb_client()
    with pytest.raises(LeaseTableNotFound):
        DynamoDbControlStore(lambda: client, "missing-sightings").control()
