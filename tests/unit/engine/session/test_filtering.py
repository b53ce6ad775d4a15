"""Records that the handler does not want count as done: they are never handed over, and the checkpoint moves past
them.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from sublet.decisions.session.record_filter import RecordFilter
from sublet.decisions.session.window import SessionOutcome
from sublet.protocol.aggregation import aggregate
from sublet.protocol.checkpoint import Checkpoint

from tests.doubles.engine_world import NO_WAITING, EngineWorld, only


def world_with(*patterns: Any, **settings: Any) -> EngineWorld:
    criteria = json.dumps({"Filters": [{"Pattern": json.dumps(pattern)} for pattern in patterns]})
    return EngineWorld(replace(NO_WAITING, filter_criteria=criteria, **settings))


ARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/events"
ORDERS = {"data": {"kind": ["order"]}}
ORDER, VISIT = '{"kind": "order"}', '{"kind": "visit"}'


def test_handler_gets_matching_records_alone_and_the_rest_is_checkpointed() -> None:
    world = world_with(ORDERS)
    numbers = world.put(VISIT, ORDER, VISIT, VISIT)
    assert only(world.window()).outcome is SessionOutcome.CAUGHT_UP
    assert world.handler.data() == [ORDER.encode()]
    assert world.table.lease().checkpoint.sequence_number == numbers[-1]


def test_a_shard_of_which_nothing_matches_is_done_without_a_call() -> None:
    world = world_with(ORDERS)
    numbers = world.put(VISIT, VISIT)
    world.window()
    assert world.handler.batches == []
    assert world.table.lease().checkpoint.sequence_number == numbers[-1]


def test_record_that_is_not_json_matches_no_field_pattern() -> None:
    world = world_with(ORDERS)
    world.put("order", "7", ORDER)
    world.shards.put("key", b"\xff\xfe", 0)
    world.window()
    assert world.handler.data() == [ORDER.encode()]


@pytest.mark.parametrize("data", [b"plain", b"[1]", b"7", b"", b"\xff\xfe"])
def test_an_absent_field_is_asked_for_in_objects_alone(data: bytes) -> None:
    """Whatever the pattern: what is no JSON object is dropped, as in the event source mapping."""
    absent = {"data": {"kind": [{"exists": False}]}}
    either = {"$or": [absent, {"data": {"$or": [{"a": [1]}, {"b": [{"exists": False}]}]}}]}
    world = world_with(absent, either)
    world.shards.put("key", data, 0)
    world.put("{}", '{"kind": 1, "b": 1}')
    world.window()
    assert world.handler.data() == [b"{}"]


def test_text_and_metadata_are_matched_too() -> None:
    world = world_with({"data": ["hello"]}, {"partitionKey": ["key-9"]})
    world.put("hello", "9", "other", ORDER)
    world.window()
    assert world.handler.data() == [b"hello", b"9"]


def test_a_field_without_a_leaf_is_absent() -> None:
    world = world_with({"data": {"errors": [{"exists": False}]}})
    kept = ['{"errors": []}', '{"errors": {}}', '{"errors": {"code": null}}']
    world.put(*kept, '{"errors": ["x"]}', '{"errors": null}')
    world.window()
    assert world.handler.data() == [each.encode() for each in kept]


@pytest.mark.parametrize("wanted", [{"exists": True}, {"prefix": "{"}, ORDER])
def test_a_condition_on_the_data_is_about_their_text(wanted: object) -> None:
    world = world_with({"data": [wanted]})
    world.put(ORDER)
    world.window()
    assert world.handler.data() == [ORDER.encode()]


def test_user_records_of_an_aggregate_are_matched_one_by_one() -> None:
    world = world_with(ORDERS)
    aggregated = aggregate([("a", None, VISIT.encode()), ("b", None, ORDER.encode())])
    world.shards.put("key", aggregated, 0)
    world.window()
    assert world.handler.data() == [ORDER.encode()]


def test_record_filter_is_false_without_criteria() -> None:
    assert not RecordFilter(NO_WAITING)


def test_a_failing_batch_of_wanted_records_is_not_gone_past() -> None:
    world = world_with(ORDERS, handler_attempts=1)

    def fails(_: object) -> None:
        raise ValueError

    world.handler.script = fails
    world.put(VISIT, ORDER, VISIT)
    world.window()
    assert not world.table.lease().checkpoint.is_sequence_number


@pytest.mark.parametrize(
    "pattern",
    [
        {"partitionKey": ["key-a"]},
        {"sequenceNumber": [{"prefix": "4"}]},
        {"approximateArrivalTimestamp": [{"numeric": [">", 0]}]},
        {"kinesisSchemaVersion": ["1.0"]},
        {"eventSource": ["aws:kinesis"]},
        {"eventName": ["aws:kinesis:record"]},
        {"eventSourceARN": [ARN]},
    ],
    ids=lambda pattern: next(iter(pattern)),
)
def test_each_field_of_the_event_is_there_to_be_matched(pattern: dict[str, Any]) -> None:
    world = world_with(pattern, stream_arn=ARN)
    world.put("a")
    world.window()
    assert world.handler.data() == [b"a"]


def test_checkpoint_passes_an_aggregate_whose_last_records_do_not_match() -> None:
    """Else the row would never say that the shard is read, and each owner would read the aggregate again."""
    world = world_with(ORDERS)
    aggregated = aggregate([("a", None, ORDER.encode()), ("b", None, VISIT.encode()), ("c", None, VISIT.encode())])
    number = world.shards.put("key", aggregated, 0)
    world.window()
    assert world.handler.data() == [ORDER.encode()]
    assert world.table.lease().checkpoint == Checkpoint(number, 2)
