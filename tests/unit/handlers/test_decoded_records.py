"""What `record.decoded()` gives a handler, and what happens to a record that cannot be decoded."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from sublet import Batch, PayloadUnreadable, SchemaRegistryAccessDenied, SettingsError
from sublet.payloads.encoding import encoder_of
from sublet.payloads.schema_registry import RegisteredSchema, SchemaLanguage
from sublet.protocol.aggregation import aggregate
from sublet.protocol.records import DecodableRecord, UserRecord
from sublet.settings.payload_format import parsed_format
from sublet.testing import MemoryConsumer, batch, consume

from tests.doubles.payload_schemas import ORDER_TEXT, VERSION, avro_schema_file, order

QUEUE = "arn:aws:sqs:us-east-1:123456789012:given-up"
REGISTERED = RegisteredSchema(VERSION, SchemaLanguage.AVRO, ORDER_TEXT, "shop/orders")


class Decoding:
    """Decodes every record, and keeps what it saw."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.kinds: set[type[UserRecord]] = set()

    def handle(self, batch: Batch) -> None:
        self.kinds |= {type(record) for record in batch.records}
        values = [record.decoded() for record in batch.records]
        for record, value in zip(batch.records, values, strict=True):
            batch.checkpoint(record)  # raises for a record that is not one of the batch's
            self.values.append(value)


def test_handler_without_the_setting_decodes_json_within_gzip_and_pays_nothing() -> None:
    handler = Decoding()
    consume(handler, [b'{"a": 1}', gzip.compress(b"[2]")])
    assert sorted(handler.values, key=str) == [[2], {"a": 1}]
    assert handler.kinds == {UserRecord}, "no record of a consumer without the setting carries a decoder"


def test_handler_with_a_format_decodes_by_it(tmp_path: Path) -> None:
    text, handler = f"avro:{avro_schema_file(tmp_path)}", Decoding()
    encode = encoder_of(parsed_format(text))
    consume(handler, [encode(order(1)), encode(order(2))], payload_format=text)
    assert sorted(value["id"] for value in handler.values) == [1, 2]
    assert handler.kinds == {DecodableRecord}


def test_handler_of_glue_s_framing_asks_the_registry_once_for_a_version() -> None:
    consumer, handler = MemoryConsumer(payload_format="glue"), Decoding()
    consumer.schemas.register(REGISTERED)
    encode = encoder_of(parsed_format("glue:shop/orders"), consumer.schemas)
    consumer.schemas.asked.clear()
    consumer.put(*(encode(order(number)) for number in range(20)))
    consumer.consume(handler)
    assert len(handler.values) == 20
    assert consumer.schemas.asked == [VERSION]


def test_user_records_of_an_aggregate_keep_what_they_are() -> None:
    handler = Decoding()
    consume(handler, [("k", aggregate([("k", None, b"[1]"), ("k", None, b"[2]")]))], payload_format="json")
    assert handler.values == [[1], [2]]


def test_record_that_cannot_be_decoded_fails_its_call_with_its_position_and_the_reason() -> None:
    with pytest.raises(PayloadUnreadable, match=r"^record \d+: not JSON: Expecting value: line 1 column 1 \(char 0\)"):
        consume(Decoding(), [b"price=10"], handler_attempts=1)


def test_record_that_cannot_be_decoded_is_set_aside_alone_by_the_failure_policy() -> None:
    handler = Decoding()
    done = consume(
        handler,
        [b"[1]", b"[2]", b"{", b"[3]"],
        on_failure=QUEUE,
        maximum_retry_attempts=1,
        bisect_batch_on_function_error=True,
        payload_format="json",
    )
    assert sorted(handler.values) == [[1], [2], [3]]
    ((aside,),) = [each.records for each in done.set_aside]
    assert aside.data == b"{"


def test_registry_that_denies_fails_the_call_until_it_is_allowed() -> None:
    consumer, handler = MemoryConsumer(payload_format="glue", handler_attempts=1), Decoding()
    consumer.schemas.register(REGISTERED)
    consumer.put(encoder_of(parsed_format("glue:shop/orders"), consumer.schemas)(order()))
    consumer.schemas.is_denied = True
    with pytest.raises(SchemaRegistryAccessDenied, match="glue:GetSchemaVersion"):
        consumer.consume(handler)
    consumer.schemas.is_denied = False
    consumer.consume(handler)
    assert handler.values == [order()]


def test_redrive_decodes_by_the_same_format(tmp_path: Path) -> None:
    text = f"avro:{avro_schema_file(tmp_path)}"
    consumer = MemoryConsumer(payload_format=text, on_failure=QUEUE, maximum_retry_attempts=0)
    consumer.put(encoder_of(parsed_format(text))(order()))

    def refuse(_: Batch) -> None:
        raise ValueError("not yet")

    consumer.consume(refuse)
    handler = Decoding()

    def again(batch: Batch) -> None:
        handler.values.extend(record.decoded() for record in batch.records)

    assert consumer.redrive(again).done == 1
    assert handler.values == [order()]


def of_an_event(event: object, context: object) -> None:
    """Lambda's contract."""


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"payload_format": "xml"}, "json, jsonl, csv or csv:NAME,NAME"),
        ({"payload_format": "avro:/nowhere.avsc"}, "an Avro schema's file"),
        (
            {"payload_format": "json", "handler_contract": "lambda_event"},
            "only with handler_contract=batch, whose records have decoded()",
        ),
    ],
)
def test_format_that_cannot_be_used_is_refused_before_a_lease_is_acquired(given: dict[str, Any], says: str) -> None:
    handler = Decoding()
    with pytest.raises(SettingsError, match="payload_format") as refused:
        consume(of_an_event if "handler_contract" in given else handler, [b"{}"], **given)
    assert says in str(refused.value)
    assert handler.values == []


def test_record_of_a_test_s_own_batch_is_decoded() -> None:
    (record,) = batch([b'{"a": 1}']).records
    assert record.decoded() == {"a": 1}
