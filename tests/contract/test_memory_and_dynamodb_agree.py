"""For any row and any write, the memory table does what DynamoDB does: `conditions.holds` is DynamoDB's judgement."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sublet.aws.clients import dynamodb_client
from sublet.aws.tables.lease_table import DynamoDbLeaseTable
from sublet.protocol.lease import AttributeValue
from sublet.protocol.lease_writes import LeaseWrite, WriteKind
from sublet.testing.memory import MemoryLeaseTable

from tests.contract.dynamodb_tables import create_table
from tests.property.lease_rows import LEASE_KEY, lease_writes, rows

pytestmark = [pytest.mark.emulator, pytest.mark.usefixtures("moto_aws")]

KEY = {"leaseKey": {"S": LEASE_KEY}}


def comparable(row: dict[str, Any] | None) -> dict[str, Any]:
    """Sets have no order."""
    return {name: {"SS": sorted(value["SS"])} if "SS" in value else dict(value) for name, value in (row or {}).items()}


@pytest.fixture
def client() -> Any:
    client = dynamodb_client()
    create_table(client, "app", "leaseKey")
    return client


def test_memory_and_dynamodb_apply_writes_alike(client: Any) -> None:
    on_dynamodb = DynamoDbLeaseTable(client, "app")

    @given(row=st.none() | rows(), write=lease_writes())
    def agree(row: dict[str, AttributeValue] | None, write: LeaseWrite) -> None:
        # DynamoDB's size() of a non-text is false; moto (5.2) raises an error of its own.
        assume(row is None or "S" in row.get("checkpoint", {}))
        # Nor is a counter of another type less than a number there, which only a late checkpoint asks.
        is_late = write.kind is WriteKind.LATE_CHECKPOINT
        assume(row is None or not is_late or "N" in row.get("leaseCounter", {"N": ""}))
        in_memory = MemoryLeaseTable()
        client.delete_item(TableName="app", Key=KEY)
        if row is not None:
            in_memory.put_row(row)
            client.put_item(TableName="app", Item=row)
        assert on_dynamodb.apply(write) == in_memory.apply(write)
        stored = client.get_item(TableName="app", Key=KEY, ConsistentRead=True).get("Item")
        assert comparable(stored) == comparable(dict(in_memory.rows().get(LEASE_KEY, {})))

    agree()
