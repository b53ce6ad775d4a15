"""The event that a handler of Lambda's contract is given, field for field as an event source mapping makes it."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from sublet.handlers.kinesis_event import kinesis_event, stream_arn_of
from sublet.protocol.aggregation import aggregate, deaggregate
from sublet.protocol.records import StreamRecord, UserRecord, as_put

from tests.doubles.engine_world import moment

EVENTS = Path(__file__).resolve().parents[3] / "events"
SHARD = "shardId-000000000006"
ARN = "arn:aws:kinesis:us-east-2:123456789012:stream/orders"
ROLE = "arn:aws:iam::123456789012:role/orders-worker"
ARRIVED = moment("2026-01-31T08:00:00.123")


def user_records(*data: bytes) -> list[UserRecord]:
    """Of stream records 101, 102, ... as the engine takes them apart."""
    fetched = [StreamRecord(str(100 + n), each, f"key-{n}", ARRIVED) for n, each in enumerate(data, 1)]
    return list(deaggregate(fetched, None).user_records)


def records_of(*data: bytes) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = kinesis_event(SHARD, user_records(*data), ARN, ROLE)["Records"]
    return records


def test_a_plain_record_has_exactly_the_documented_fields() -> None:
    documented = json.loads((EVENTS / "kinesis_event_to_handler.json").read_text())
    [expected] = documented["Records"]
    kinesis = expected["kinesis"]
    record = StreamRecord(
        kinesis["sequenceNumber"], base64.b64decode(kinesis["data"]), kinesis["partitionKey"], ARRIVED
    )
    given = kinesis_event(SHARD, list(deaggregate([record], None).user_records), ARN, ROLE)
    assert given == documented
    assert json.loads(json.dumps(given)) == documented, "as it would come through Lambda's own JSON"


def test_user_records_of_an_aggregate_have_events_of_their_own() -> None:
    """A handler that keys idempotency on the eventID skips none of them."""
    first, second, alone = records_of(aggregate([("a", None, b"one"), ("b", "7", b"two")]), b"three")
    assert [record["eventID"] for record in (first, second, alone)] == [
        f"{SHARD}:101:0",
        f"{SHARD}:101:1",
        f"{SHARD}:102",
    ]
    assert first["kinesis"]["sequenceNumber"] == second["kinesis"]["sequenceNumber"] == "101"
    assert second["kinesis"]["partitionKey"] == "b"
    assert (second["kinesis"]["subSequenceNumber"], second["kinesis"]["explicitHashKey"]) == (1, "7")
    assert "explicitHashKey" not in first["kinesis"]
    assert "subSequenceNumber" not in alone["kinesis"]


def test_an_aggregate_of_one_is_an_aggregate() -> None:
    [only] = records_of(aggregate([("a", None, b"one")]))
    assert only["eventID"] == f"{SHARD}:101:0"


def test_an_aggregate_as_it_was_put_looks_as_behind_an_event_source_mapping() -> None:
    put = aggregate([("a", None, b"one"), ("b", None, b"two")])
    [record] = kinesis_event(SHARD, as_put(user_records(put)), ARN, ROLE)["Records"]
    assert base64.b64decode(record["kinesis"]["data"]) == put
    assert record["kinesis"]["partitionKey"] == "key-1"
    assert record["eventID"] == f"{SHARD}:101"
    assert "subSequenceNumber" not in record["kinesis"]


@pytest.mark.parametrize(
    ("arn", "region", "source"),
    [(ARN, "us-east-2", ARN), (None, "", "arn:aws:kinesis:::stream/orders")],
)
def test_an_unknown_region_or_arn_is_not_invented(arn: str | None, region: str, source: str) -> None:
    [record] = kinesis_event(SHARD, user_records(b"a"), stream_arn_of("orders", arn), "")["Records"]
    assert (record["awsRegion"], record["eventSourceARN"]) == (region, source)
