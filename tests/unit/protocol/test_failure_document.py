"""The document that a failure destination gets, and reading it back."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from sublet.errors import DestinationRefused
from sublet.handlers.kinesis_event import identifier
from sublet.protocol import failure_document_read
from sublet.protocol.failure_document import (
    NOT_KEPT,
    Failure,
    SetAsideBatch,
    messages,
    object_bytes,
    object_key,
    place_of_key,
)
from sublet.protocol.failure_document_read import LINE_MAX, NotADocument, batch_of_message, batch_of_object
from sublet.protocol.records import StreamRecord, UserRecord

AT = datetime(2026, 1, 31, 8, 0, 0, 123000, tzinfo=UTC)
ARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/events"


def record(number: int, data: bytes = b"data", sub: int | None = None) -> UserRecord:
    """`sub`: it came in an aggregate, at this place."""
    key, whole = f"kéy-{number}", data if sub is None else NOT_KEPT
    return UserRecord(data, key, sub or 0, StreamRecord(str(number), whole, key, AT))


def batch(*records: UserRecord) -> SetAsideBatch:
    return SetAsideBatch(
        "orders",
        "events",
        ARN,
        "shardId-000000000000",
        records or (record(101), record(102, sub=3), record(104, b"\x00\xff")),
        "RetryAttemptsExhausted",
        3,
        AT,
        "item/invocation",
        "orders:handle",
        Failure("ValueError", "orders.py:7"),
    )


def is_taken(given: SetAsideBatch) -> bool:
    try:
        return bool(messages(given))
    except DestinationRefused:
        return False


def documents(given: SetAsideBatch, limit: int = 256 * 1024) -> list[dict[str, object]]:
    return [json.loads(message.body) for message in messages(given, limit)]


def test_the_document_is_the_event_source_mappings_with_a_field_of_ours() -> None:
    (document,) = documents(batch())
    ours = document.pop("sublet")
    assert document == {
        "requestContext": {
            "requestId": "item/invocation",
            "functionArn": "orders:handle",
            "condition": "RetryAttemptsExhausted",
            "approximateInvokeCount": 3,
        },
        "responseContext": {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"},
        "version": "1.0",
        "timestamp": "2026-01-31T08:00:00.123Z",
        "KinesisBatchInfo": {
            "shardId": "shardId-000000000000",
            "startSequenceNumber": "101",
            "endSequenceNumber": "104",
            "approximateArrivalOfFirstRecord": "2026-01-31T08:00:00.123Z",
            "approximateArrivalOfLastRecord": "2026-01-31T08:00:00.123Z",
            "batchSize": 3,
            "streamArn": ARN,
        },
    }
    assert isinstance(ours, dict)
    assert ours["error"] == {"type": "ValueError", "frames": "orders.py:7"}
    assert [line["subSequenceNumber"] for line in ours["records"]] == [0, 3, 0]


def test_document_of_reported_item_failures_has_no_function_error() -> None:
    (document,) = documents(replace(batch(), failure=None, has_raised=False))
    assert document["responseContext"] == {
        "statusCode": 200,
        "executedVersion": "$LATEST",
        "functionError": None,
    }


def test_document_of_a_record_too_old_has_no_response() -> None:
    (document,) = documents(replace(batch(), condition="RecordAgeExceeded", attempts=0, failure=None, has_raised=False))
    request = document["requestContext"]
    assert isinstance(request, dict)
    assert "responseContext" not in document
    assert request["approximateInvokeCount"] == 1


def test_a_message_is_read_back() -> None:
    (message,) = messages(batch())
    assert batch_of_message(message.body) == batch()


def test_record_keeps_its_identifier_through_the_document() -> None:
    """Lambda's event names those of aggregates by one number more, and idempotency keys are such names."""
    given = batch(record(101), record(102, sub=0), record(102, sub=1), record(103, b""), record(104, b"", sub=0))
    (message,) = messages(given)
    for read in (batch_of_message(message.body), batch_of_object(object_bytes(given))):
        assert [each.is_aggregated for each in read.records] == [False, True, True, False, True]
        assert list(map(identifier, read.records)) == list(map(identifier, given.records))


def test_a_message_is_read_back_from_a_topics_envelope() -> None:
    (message,) = messages(batch())
    assert batch_of_message(json.dumps({"Type": "Notification", "Message": message.body})) == batch()


def test_an_object_is_gzipped_json_lines_and_is_read_back() -> None:
    data = object_bytes(batch())
    lines = [json.loads(line) for line in gzip.decompress(data).decode().splitlines()]
    assert [line.get("sequenceNumber") for line in lines] == [None, "101", "102", "104"]
    assert batch_of_object(data) == batch()
    assert object_bytes(batch()) == data, "the same bytes each time"


def test_an_object_is_named_by_its_records_positions() -> None:
    again = replace(batch(), at=AT.replace(year=2027), holder="another", attempts=7)
    key = object_key(batch(), "given-up")
    assert object_key(again, "given-up/") == key
    assert key == f"given-up/orders/shardId-000000000000/101-0-{batch().identity}.jsonl.gz"
    assert object_key(batch(record(102, sub=3)), "").startswith("orders/shardId-000000000000/102-3-")


@pytest.mark.parametrize(
    "other",
    [
        batch(record(101), record(103), record(104)),
        batch(record(101), record(102, sub=4), record(104)),
        batch(record(101), record(102, sub=3)),
        batch(record(101), record(102), record(104)),
        replace(batch(), shard_id="shardId-000000000001"),
        replace(batch(), application="audit"),
    ],
)
def test_batches_that_begin_alike_and_hold_other_records_are_not_the_same(other: SetAsideBatch) -> None:
    """Whichever is kept, or known to have come before, must not stand for the other."""
    assert other.identity != batch().identity
    assert object_key(other, "") != object_key(batch(), "")
    assert messages(other)[0].identity != messages(batch())[0].identity


def test_a_whole_aggregate_is_not_the_user_record_at_its_place() -> None:
    """Which it is depends on the setting `deaggregate`, that may change from one deployment to the next."""
    plain = batch(record(102))
    assert plain.identity != batch(record(102, sub=0)).identity


def test_the_names_of_every_version_are_put_in_order() -> None:
    folder = "given-up/orders/shardId-000000000000"
    named = [object_key(batch(record(number)), "given-up") for number in (9, 100)]
    older, report, odd = (f"{folder}/{name}.jsonl.gz" for name in ("20-0", "report", "7-0-not_hex"))
    assert sorted([older, *named, report, odd], key=place_of_key) == [report, odd, named[0], older, named[1]]


def test_records_that_do_not_fit_one_message_go_into_several_in_order() -> None:
    given = batch(*(record(number, b"x" * 3_000) for number in range(100, 150)))
    parts = messages(given, 20_000)
    assert all(len(part.body.encode()) <= 20_000 for part in parts)
    read = [batch_of_message(part.body) for part in parts]
    assert [each.sequence_number for part in read for each in part.records] == [
        str(number) for number in range(100, 150)
    ]
    assert len(parts) > 1
    for part, document in zip(read, (json.loads(part.body) for part in parts), strict=True):
        assert document["KinesisBatchInfo"]["startSequenceNumber"] == part.records[0].sequence_number
        assert document["KinesisBatchInfo"]["batchSize"] == len(part.records)
    assert len({part.identity for part in parts}) == len(parts)


def test_a_record_larger_than_a_message_is_refused() -> None:
    """Without its data it would not be kept, and the checkpoint would go past it."""
    given = batch(record(1), record(2, b"x" * 300_000), record(3))
    with pytest.raises(DestinationRefused, match="too large for a message of 262,144"):
        messages(given)


def test_a_record_that_an_earlier_version_only_named_is_refused() -> None:
    document = json.loads(messages(batch(record(2)))[0].body)
    document["sublet"]["records"][0]["data"] = None
    with pytest.raises(NotADocument, match="record 2 has no data"):
        batch_of_message(json.dumps(document))


@pytest.mark.parametrize("character", ["x", "错", "😀", "\x00"])
@pytest.mark.parametrize("size", [1, 60_000, 195_000])
def test_a_text_has_the_room_that_records_leave(character: str, size: int) -> None:
    failure = Failure("ValueError", "orders.py:7", character * 40_000)
    given = replace(batch(record(1, b"x" * size)), failure=failure)
    (message,) = messages(given)
    assert len(message.body) <= 256 * 1024
    read = batch_of_message(message.body)
    assert read.records == given.records
    assert read.failure is not None
    assert (read.failure.text or "").startswith(character)


def test_document_leaves_out_the_error_text_without_room() -> None:
    largest = next(size for size in range(262_144 * 3 // 4, 0, -3) if is_taken(batch(record(1, b"x" * size))))
    failure = Failure("ValueError", "orders.py:7", "text" * 100)
    (message,) = messages(replace(batch(record(1, b"x" * (largest - 15))), failure=failure))
    assert batch_of_message(message.body).failure == replace(failure, text="")


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"sublet": {}}', '{"sublet": 7}', '{"Message": "x"}'])
def test_message_that_is_no_failure_document_is_refused(body: str) -> None:
    with pytest.raises(NotADocument):
        batch_of_message(body)


@pytest.mark.parametrize(
    "data",
    [b"", b"plain", *(gzip.compress(each, mtime=0) for each in (b"", b"{}", b"7"))],
)
def test_object_that_is_no_failure_document_is_refused(data: bytes) -> None:
    with pytest.raises(NotADocument):
        batch_of_object(data)


@pytest.mark.parametrize(
    ("path", "odd"),
    [
        (("KinesisBatchInfo", "shardId"), "../../home/user/.ssh/authorized_keys"),
        (("KinesisBatchInfo", "shardId"), ".."),
        (("KinesisBatchInfo", "shardId"), "."),
        (("KinesisBatchInfo", "shardId"), "shardId-000000000000\n"),
        (("KinesisBatchInfo", "shardId"), "shardId-000000000000\x00"),
        (("KinesisBatchInfo", "shardId"), ""),
        (("KinesisBatchInfo", "streamArn"), "arn:aws:kinesis:eu-west-1:123456789012:stream/.."),
        (("KinesisBatchInfo", "streamArn"), "arn:aws:kinesis:eu-west-1:123456789012:stream/../x"),
        (("sublet", "stream"), "../orders"),
        (("sublet", "application"), "orders/../audit"),
        (("sublet", "attempts"), -1),
        (("sublet", "records", 0, "sequenceNumber"), "007"),
        (("sublet", "records", 0, "sequenceNumber"), "٧"),
        (("sublet", "records", 0, "sequenceNumber"), "LATEST"),
        (("sublet", "records", 0, "subSequenceNumber"), 2**64),
        (("sublet", "records", 0, "explicitHashKey"), "-1"),
        (("sublet", "records", 0, "partitionKey"), "\ud800"),
        (("sublet", "records", 0, "approximateArrivalTimestamp"), "0001-01-01T00:00:00Z"),
        (("requestContext", "condition"), "a\nb"),
    ],
)
def test_a_field_that_has_not_the_form_that_kinesis_gives_it_is_refused(
    path: tuple[str | int, ...], odd: object
) -> None:
    """A handler makes a file's name of a shard's id, and a key of its table of a sequence number."""
    document = json.loads(messages(batch())[0].body)
    *above, last = path
    inside = document
    for key in above:
        inside = inside[key]
    assert last in inside
    inside[last] = odd
    with pytest.raises(NotADocument):
        batch_of_message(json.dumps(document))


@pytest.mark.parametrize("places", [(101, 101), (102, 101), (9, 100, 20)])
def test_records_that_are_not_in_their_shard_s_order_are_refused(places: tuple[int, ...]) -> None:
    with pytest.raises(NotADocument, match="does not come after"):
        batch_of_message(messages(batch(*map(record, places)))[0].body)


@pytest.mark.parametrize("name", ["a", "shardId-000000000000", ".orders", "a..b", "x" * 128])
def test_a_name_that_kinesis_may_give_is_read(name: str) -> None:
    given = replace(batch(), shard_id=name, stream=name, application="orders")
    assert batch_of_object(object_bytes(given)) == given


def test_an_object_that_unpacks_to_gigabytes_is_refused_before_it_is_unpacked() -> None:
    bomb = gzip.compress(bytes(2**20)) * 400
    tracemalloc.start()
    try:
        with pytest.raises(NotADocument, match=r"its [0-9,]+ bytes unpack to more than any batch"):
            batch_of_object(bomb)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * LINE_MAX


def test_many_lines_that_unpack_to_gigabytes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = object_bytes(batch(record(1, b"x" * 3_000), record(2, b"x" * 3_000)))
    assert batch_of_object(data).records
    monkeypatch.setattr(failure_document_read, "EXPANDED_MAX", 5_000)
    with pytest.raises(NotADocument, match="unpack to more than any batch"):
        batch_of_object(data)
    monkeypatch.undo()
    monkeypatch.setattr(failure_document_read, "RECORDS_MAX", 1)
    with pytest.raises(NotADocument, match="more than 1 records"):
        batch_of_object(data)
