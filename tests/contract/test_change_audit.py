"""The ChangeAudit's promises, for its two implementations."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from sublet.aws.clients import dynamodb_client
from sublet.aws.tables.sightings import DynamoDbSightingStore
from sublet.errors import LeaseTableNotFound
from sublet.operate.aws.change_audit import AUDIT, DynamoDbChangeAudit
from sublet.operate.console.change_audit import ChangeAudit, MemoryChangeAudit
from sublet.operate.rules.change_audit import AuditEntry

from tests.contract.dynamodb_tables import create_table

NOW = datetime(2026, 11, 22, 8, tzinfo=UTC)
ENTRY = AuditEntry("1", NOW, "ada@example.com", "Move all shards", "sublet seek earliest")


@pytest.fixture
def table(moto_aws: None) -> str:
    return create_table(dynamodb_client(), f"app-{uuid.uuid4().hex[:8]}-sightings", "chunk")


def over_dynamodb(table: str) -> DynamoDbChangeAudit:
    client = dynamodb_client()
    return DynamoDbChangeAudit(lambda: client, table)


@pytest.fixture(params=["memory", "dynamodb"])
def audit(request: pytest.FixtureRequest) -> ChangeAudit:
    return MemoryChangeAudit() if request.param == "memory" else over_dynamodb(request.getfixturevalue("table"))


def test_entries_are_kept_in_order_and_replaced_by_number(audit: ChangeAudit) -> None:
    assert audit.entries() == ()
    later, done = replace(ENTRY, number="2", at=NOW + timedelta(seconds=1)), replace(ENTRY, state="done", said="moved")
    for each in (ENTRY, later, done):
        audit.keep(each)
    assert audit.entries() == (done, later)


def test_entries_of_several_consoles_at_once_are_all_kept(table: str) -> None:
    def keep(number: int) -> None:
        over_dynamodb(table).keep(replace(ENTRY, number=str(number), at=NOW + number * timedelta(seconds=1)))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(keep, range(8)))
    assert [each.number for each in over_dynamodb(table).entries()] == [str(number) for number in range(8)]


def test_ticks_ignore_the_audit(table: str) -> None:
    over_dynamodb(table).keep(ENTRY)
    before = DynamoDbSightingStore(dynamodb_client, table).load()
    assert (before.sightings, before.streams) == ({}, {})


@pytest.mark.parametrize("damaged", [{"data": {"B": b"{"}, "round": {"N": "3"}}, {"data": {"B": b"{"}}, {}])
def test_a_damaged_audit_is_replaced_and_prevents_no_change(table: str, damaged: dict[str, Any]) -> None:
    dynamodb_client().put_item(TableName=table, Item={"chunk": {"S": AUDIT}, **damaged})
    audit = over_dynamodb(table)
    assert audit.entries() == ()
    audit.keep(ENTRY)
    assert audit.entries() == (ENTRY,)


def test_a_missing_table_is_named(moto_aws: None) -> None:
    with pytest.raises(LeaseTableNotFound, match="no-such-table"):
        over_dynamodb("no-such-table").keep(ENTRY)
