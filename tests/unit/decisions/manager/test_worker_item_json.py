"""A worker item survives its JSON, and whatever else arrives is one clear error."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sublet.decisions.manager.choose_leases import ClaimReason
from sublet.decisions.manager.packing import LeaseClaim, WorkerItem
from sublet.decisions.manager.worker_item_json import item_from_json, item_to_json
from sublet.errors import EventError

EVENTS = Path(__file__).parents[4] / "events"
ITEM = WorkerItem(
    "9f86d081884c7d65",
    "app-lambda-0",
    (
        LeaseClaim("shardId-000000000000", None, 0, ClaimReason.FREE),
        LeaseClaim("shardId-000000000001", "ip-10-0-0-1", 41, ClaimReason.STEAL),
    ),
    40,
)


def test_worker_item_round_trips_through_json() -> None:
    assert item_from_json(json.loads(json.dumps(item_to_json(ITEM)))) == ITEM


def test_an_item_with_everything() -> None:
    item = WorkerItem("item", "worker", (), 1, datetime(2026, 1, 31, 8, tzinfo=UTC), 3)
    assert item_from_json(json.loads(json.dumps(item_to_json(item)))) == item


@pytest.mark.parametrize("at", ["yesterday", 7, "2026-01-31T08:00:00"])
def test_worker_item_is_refused_with_an_invalid_timestamp(at: object) -> None:
    item = {**item_to_json(WorkerItem("item", "worker", (), 1)), "dispatched_at": at}
    with pytest.raises(EventError, match="dispatched_at"):
        item_from_json(item)


@pytest.mark.parametrize("name", ["map_item_to_worker", "manager_to_execution", "worker_to_choice"])
def test_the_real_events(name: str) -> None:
    event = json.loads((EVENTS / f"{name}.json").read_text())
    for item in event.get("items") or [event.get("item") or event]:
        assert item_to_json(item_from_json(item)) == item


def test_fields_of_others_are_ignored() -> None:
    assert item_from_json(item_to_json(ITEM) | {"attempt": 2}) == ITEM


def changed(path: str, value: Any) -> Any:
    event = json.loads(json.dumps(item_to_json(ITEM)))
    *outer, last = path.split(".")
    inner: Any = event
    for name in outer:
        inner = inner[int(name) if name.isdigit() else name]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return event


@pytest.mark.parametrize(
    ("event", "field"),
    [
        (None, "(whole event)"),
        ([], "(whole event)"),
        ({}, "claims"),
        (changed("item_id", ...), "item_id"),
        (changed("item_id", ""), "item_id"),
        (changed("worker_id", 7), "worker_id"),
        (changed("windows_left", "40"), "windows_left"),
        (changed("windows_left", -1), "windows_left"),
        (changed("windows_left", True), "windows_left"),
        (changed("claims", {}), "claims"),
        (changed("claims", ["shardId-000000000000"]), "claims[0]"),
        (changed("claims.1.lease_key", ...), "claims[1].lease_key"),
        (changed("claims.1.lease_owner", ...), "claims[1].lease_owner"),
        (changed("claims.1.lease_owner", 5), "claims[1].lease_owner"),
        (changed("claims.1.lease_counter", 1.5), "claims[1].lease_counter"),
        (changed("claims.0.why", "because"), "claims[0].why"),
        (changed("claims.0.why", []), "claims[0].why"),
    ],
)
def test_worker_item_error_names_the_invalid_field(event: object, field: str) -> None:
    with pytest.raises(EventError) as refused:
        item_from_json(event)
    assert refused.value.field == field
    assert field in str(refused.value)
