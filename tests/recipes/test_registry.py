"""One handler for Avro of a registry over HTTP, Avro of Glue's kind, and Protobuf; what it cannot read is set aside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sublet
from sublet.payloads.framing import for_confluent, for_glue
from sublet.payloads.schema_registry import RegisteredSchema, SchemaLanguage
from sublet.testing import MemoryConsumer

from examples.recipes.registry import revenue
from infra.local import EmbeddedAws
from tests.doubles.http_registry import served
from tests.doubles.payload_schemas import ORDER_TEXT, VERSION, avro_schema_file, descriptor_set_file, order
from tests.recipes.recipe_runs import RECIPES, RecipeRuns

GIVES_UP: dict[str, Any] = {
    "maximum_retry_attempts": 2,
    "bisect_batch_on_function_error": True,
    "on_failure": "arn:aws:sqs:eu-central-1:123456789012:given-up",
}
ORDERS = [order(number) for number in (7, 8, 9)]
INDEX = b"\x02"
"""Of shop.Order in its schema, as Glue writes it; and twice, as a path of one step for Confluent."""
SAID = "3 orders, 31.50"


def test_avro_of_glue_s_registry_is_decoded_and_a_record_of_no_version_set_aside(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    encode = sublet.encoder(f"avro:{avro_schema_file(tmp_path)}")
    consumer = MemoryConsumer(payload_format="glue", **GIVES_UP)
    consumer.schemas.register(RegisteredSchema(VERSION, SchemaLanguage.AVRO, ORDER_TEXT, "shop/orders"))
    lost = for_glue("00000000-0000-4000-8000-000000000001", encode(order(10)))
    consumer.put(*(for_glue(VERSION, encode(each)) for each in ORDERS), lost)
    done = consumer.consume(revenue)
    assert [record.data for aside in done.set_aside for record in aside.records] == [lost]
    assert sum(float(line.split()[-1]) for line in capsys.readouterr().out.splitlines()) == 31.5


@pytest.mark.parametrize(
    "frame",
    [
        lambda data: data,
        lambda data: for_glue(VERSION, INDEX + data),
        lambda data: for_confluent("1", INDEX + INDEX + data),
    ],
)
def test_protobuf_is_decoded_with_framing_and_without(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, frame: Any
) -> None:
    form = f"protobuf:{descriptor_set_file(tmp_path)}:shop.Order"
    encode = sublet.encoder(form)
    consumer = MemoryConsumer(payload_format=form)
    consumer.put(*(frame(encode(each)) for each in ORDERS))
    consumer.consume(revenue)
    assert SAID in capsys.readouterr().out


@pytest.mark.emulator
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_avro_of_a_registry_over_http_is_decoded_from_a_stream(aws: EmbeddedAws, stream: str, tmp_path: Path) -> None:
    answers = {
        "/schemas/ids/1": (200, {"schema": ORDER_TEXT}),
        "/subjects/orders-value/versions/latest": (200, {"id": 1, "version": 1, "schema": ORDER_TEXT}),
    }
    with served(answers) as registry:
        encode = sublet.encoder(f"confluent:{registry.url}#orders-value")
        with sublet.Producer(stream) as producer:
            for each in ORDERS:
                producer.put("one-key", encode(each))
        settings = {"payload_format": f"confluent:{registry.url}"}
        runs = RecipeRuns(aws, stream, RECIPES / "registry", "revenue:handle", tmp_path, {}, settings)
        runs.run_until(lambda: SAID in runs.log())
