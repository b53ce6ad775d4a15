"""A handler's return value means what it means to Lambda's event source mapping, by its developer guide and by
observation.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

import pytest
from sublet.errors import HandlerContractBroken
from sublet.handlers.item_failures import check_sendable, failed
from sublet.protocol.aggregation import aggregate, deaggregate
from sublet.protocol.records import StreamRecord

from tests.doubles.engine_world import moment

ARRIVED = moment("2026-01-31T08:00:00")
AGGREGATE = aggregate([("a", None, b"0"), ("a", None, b"1"), ("a", None, b"2")])
FETCHED = [StreamRecord("101", b"", "k", ARRIVED), StreamRecord("102", AGGREGATE, "k", ARRIVED)]
FETCHED += [StreamRecord("103", b"", "k", ARRIVED), StreamRecord("1000", b"", "k", ARRIVED)]
RECORDS = list(deaggregate(FETCHED, None).user_records)
"""101 at place 0, the user records of 102 at 1 to 3, 103 at 4, 1000 at 5."""


def failures(*identifiers: object) -> dict[str, object]:
    return {"batchItemFailures": [{"itemIdentifier": identifier} for identifier in identifiers]}


class Response(NamedTuple):
    """JSON, but an array."""

    batchItemFailures: list[object]  # noqa: N815 - as AWS spells it


@dataclass
class NoJson:
    batchItemFailures: list[object]  # noqa: N815 - as above


class WithAttributes(dict[str, object]):
    """As some libraries' dicts."""

    def __getattr__(self, name: str) -> object:
        return self[name]


@pytest.mark.parametrize(
    "returned",
    [
        None,
        {},
        "",
        [],
        {"batchItemFailures": []},
        {"batchItemFailures": ()},
        {"batchItemFailures": None},
        "Successfully processed 6 records.",
        {"statusCode": 200},
        WithAttributes(batchItemFailures=[]),
        True,
        6,
    ],
    ids=repr,
)
def test_result_without_item_failures_means_all_is_done(returned: object) -> None:
    assert failed(returned, RECORDS) is None


@pytest.mark.parametrize(
    ("returned", "first"),
    [
        (failures("101"), 0),
        (failures("103"), 4),
        (failures("1000", "103"), 4),
        (failures("1000", "103", "102"), 1),
        (failures("103", "103"), 4),
        (failures("102"), 1),
        (failures("102:0"), 1),
        (failures("102:1"), 2),
        (failures("102:2", "103"), 3),
        (failures("102:1", "102"), 1),
        ({"batchItemFailures": ({"itemIdentifier": "103"},)}, 4),
        ({"batchItemFailures": [{"itemIdentifier": "103", "more": 1}], "more": 2}, 4),
    ],
    ids=repr,
)
def test_records_before_the_lowest_item_failure_are_done(returned: object, first: int) -> None:
    """By place in the batch: as text, 1000 would be before 101."""
    found = failed(returned, RECORDS)
    assert found is not None
    assert found.first == first
    assert str(RECORDS[first].checkpoint) in found.why


@pytest.mark.parametrize(
    "returned",
    [
        failures("104"),
        failures(""),
        failures(None),
        failures(101),
        failures("103", "unknown"),
        failures("102:3"),
        failures("shardId-000000000000:103"),
        {"batchItemFailures": [{"wrongKey": "103"}]},
        {"batchItemFailures": [{}]},
        {"batchItemFailures": ["103"]},
        {"batchItemFailures": [None]},
        {"batchItemFailures": {"itemIdentifier": "103"}},
        {"batchItemFailures": "103"},
        json.dumps(failures("103")),
        Response([{"itemIdentifier": "103"}]),
    ],
    ids=repr,
)
def test_a_malformed_one_leaves_all_to_be_done(returned: object) -> None:
    found = failed(returned, RECORDS)
    assert found is not None
    assert found.first == 0
    assert "batchItemFailures" in found.why


def test_item_failure_of_a_begun_aggregate_means_its_part_in_the_batch() -> None:
    rest = RECORDS[2:]
    found = failed(failures("102"), rest)
    assert found is not None
    assert found.first == 0
    done_before = failed(failures("102:0"), rest)
    assert done_before is not None
    assert "names no record of the batch" in done_before.why


@pytest.mark.parametrize(
    "returned", [None, {}, "text", 6, Decimal("6.5"), {"took": [Decimal(1)]}, failures("103"), Response([])], ids=repr
)
def test_handler_may_return_what_lambda_can_serialize(returned: object) -> None:
    check_sendable(returned)


def test_batch_fails_when_lambda_could_not_serialize_the_result() -> None:
    circular: list[object] = []
    circular.append(circular)
    for returned in (NoJson([]), {"x": object()}, {(1, 2): 3}, b"bytes", {1, 2}, circular):
        with pytest.raises(HandlerContractBroken, match=f"of type {type(returned).__name__} that is not JSON"):
            check_sendable(returned)


def test_errors_do_not_quote_the_returned_value() -> None:
    with pytest.raises(HandlerContractBroken) as told:
        check_sendable({"secret": object()})
    assert "secret" not in str(told.value)
    found = failed(failures("secret"), RECORDS)
    assert found is not None
    assert "secret" not in found.why
