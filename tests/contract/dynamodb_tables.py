"""Tables for the contract suites, as the stack makes them."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from sublet.aws.clients import dynamodb_client

EMULATORS = tuple(pytest.param(name, marks=pytest.mark.emulator) for name in ("moto", "embedded"))
"""Parameters of a fixture that calls `emulated_dynamodb`."""


def emulated_dynamodb(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client of the emulator that the fixture's parameter names. Clients made later go there too."""
    if request.param == "moto":
        request.getfixturevalue("moto_aws")
    else:
        for name, value in request.getfixturevalue("embedded_aws").environment.items():
            monkeypatch.setenv(name, value)
    return dynamodb_client()


def sightings_table(client: Any) -> str:
    """An empty one."""
    return create_table(client, f"app-{uuid.uuid4().hex[:8]}-sightings", "chunk")


def create_table(client: Any, name: str, key: str) -> str:
    client.create_table(
        TableName=name,
        KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    client.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1})
    return name
