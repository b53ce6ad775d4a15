"""The promises of SchemaRegistry, for every implementation; and what Glue and a registry over HTTP answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError
from moto import mock_aws
from sublet.aws.schema_registries import GlueRegistry, registry_of
from sublet.errors import (
    SchemaNotUsable,
    SchemaRegistryAccessDenied,
    SchemaRegistryError,
    SchemaRegistryUnavailable,
)
from sublet.payloads.registry_cache import CachedRegistry
from sublet.payloads.schema_registry import RegisteredSchema, SchemaLanguage, SchemaRegistry
from sublet.settings.payload_format import parsed_format
from sublet.system.clock import SystemClock
from sublet.system.confluent_registry import ConfluentRegistry
from sublet.testing.memory import MemorySchemaRegistry

from tests.doubles.http_registry import served
from tests.doubles.payload_schemas import ORDER_TEXT, VERSION

MISSING = "00000000-0000-4000-8000-000000000001"
LATER_TEXT = json.dumps({**json.loads(ORDER_TEXT), "doc": "later"})


@dataclass
class Bench:
    """A registry with two versions of one schema. `missing`: an id that it does not have."""

    registry: SchemaRegistry
    first: str
    second: str
    subject: str
    missing: str


def in_memory() -> Iterator[Bench]:
    registry = MemorySchemaRegistry()
    for version, text in ((VERSION, ORDER_TEXT), (MISSING[:-1] + "2", LATER_TEXT)):
        registry.register(RegisteredSchema(version, SchemaLanguage.AVRO, text, "shop/orders"))
    yield Bench(registry, VERSION, MISSING[:-1] + "2", "shop/orders", MISSING)


def over_glue() -> Iterator[Bench]:
    with mock_aws():
        client: Any = boto3.client("glue", region_name="eu-central-1")
        client.create_registry(RegistryName="shop")
        first = client.create_schema(
            RegistryId={"RegistryName": "shop"},
            SchemaName="orders",
            DataFormat="AVRO",
            Compatibility="NONE",
            SchemaDefinition=ORDER_TEXT,
        )["SchemaVersionId"]
        second = client.register_schema_version(
            SchemaId={"RegistryName": "shop", "SchemaName": "orders"}, SchemaDefinition=LATER_TEXT
        )["SchemaVersionId"]
        yield Bench(GlueRegistry(client), first, second, "shop/orders", MISSING)


def over_http() -> Iterator[Bench]:
    answers = {
        "/schemas/ids/1": (200, {"schema": ORDER_TEXT}),
        "/schemas/ids/2": (200, {"schema": LATER_TEXT, "schemaType": "AVRO"}),
        "/subjects/orders-value/versions/latest": (200, {"id": 2, "version": 2, "schema": LATER_TEXT}),
    }
    with served(answers) as registry:
        yield Bench(ConfluentRegistry(registry.url), "1", "2", "orders-value", "3")


@pytest.fixture(params=[in_memory, over_glue, over_http])
def bench(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    made: Callable[[], Iterator[Bench]] = request.param
    yield from made()


def test_version_is_found_by_its_id(bench: Bench) -> None:
    found = bench.registry.version(bench.first)
    assert found is not None
    assert (found.version, found.language, found.definition) == (bench.first, SchemaLanguage.AVRO, ORDER_TEXT)
    assert found.subject in ("", bench.subject)


def test_latest_version_is_found_by_the_schema_s_name(bench: Bench) -> None:
    found = bench.registry.latest(bench.subject)
    assert found == RegisteredSchema(bench.second, SchemaLanguage.AVRO, LATER_TEXT, bench.subject)


def test_version_and_schema_that_are_not_there_are_none(bench: Bench) -> None:
    assert bench.registry.version(bench.missing) is None
    assert bench.registry.latest(f"{bench.subject}-of-nobody") is None


class GlueThatAnswers:
    def __init__(self, answer: Exception | Mapping[str, Any]) -> None:
        self.answer = answer

    def get_schema_version(self, **_: object) -> Mapping[str, Any]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def refusal(code: str, status: int = 400) -> ClientError:
    answer: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "GetSchemaVersion")


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (refusal("AccessDeniedException"), SchemaRegistryAccessDenied, "may not call glue:GetSchemaVersion"),
        (refusal("InternalServiceException", 500), SchemaRegistryUnavailable, "Glue answers InternalServiceException"),
        (refusal("ThrottlingException"), SchemaRegistryUnavailable, "Glue answers ThrottlingException"),
        (refusal("InvalidInputException"), SchemaRegistryError, "Glue answers InvalidInputException"),
        (EndpointConnectionError(endpoint_url="x"), SchemaRegistryUnavailable, "Glue cannot be reached"),
        (NoCredentialsError(), SchemaRegistryAccessDenied, "Unable to locate credentials"),
        (
            {"SchemaVersionId": VERSION, "SchemaDefinition": "", "DataFormat": "THRIFT"},
            SchemaNotUsable,
            "is of THRIFT",
        ),
    ],
)
def test_glue_s_refusals_have_names(answer: Exception, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        GlueRegistry(GlueThatAnswers(answer)).version(VERSION)
    assert type(caught.value) is error


@pytest.mark.parametrize("status", ["PENDING", "FAILURE", "DELETING"])
def test_glue_s_version_that_is_not_available_is_none(status: str) -> None:
    answer = {"SchemaVersionId": VERSION, "SchemaDefinition": "{}", "DataFormat": "AVRO", "Status": status}
    assert GlueRegistry(GlueThatAnswers(answer)).version(VERSION) is None


@pytest.mark.parametrize("registry", [MemorySchemaRegistry(), GlueRegistry(GlueThatAnswers({}))])
def test_glue_is_not_asked_for_what_it_cannot_have(registry: SchemaRegistry) -> None:
    with pytest.raises(SchemaRegistryError, match="is not a UUID"):
        registry.version("7")
    with pytest.raises(SchemaRegistryError, match="registry/schema"):
        registry.latest("orders")


def test_memory_registry_refuses_what_glue_would_not_have() -> None:
    registry = MemorySchemaRegistry(RegisteredSchema(VERSION, SchemaLanguage.AVRO, "{}", "shop/orders"))
    for wrong in (
        RegisteredSchema("7", SchemaLanguage.AVRO, "{}", "shop/orders"),
        RegisteredSchema(MISSING, SchemaLanguage.AVRO, "{}", "orders"),
        RegisteredSchema(VERSION, SchemaLanguage.AVRO, "[]", "shop/orders"),
    ):
        with pytest.raises(ValueError, match=r"Glue's|never changes|UUID"):
            registry.register(wrong)


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        ((401, {}), SchemaRegistryAccessDenied, r"answers 401: a user and a password for it belong into ~/\.netrc"),
        ((403, {}), SchemaRegistryAccessDenied, "answers 403"),
        ((429, {}), SchemaRegistryUnavailable, "answers 429"),
        ((503, {}), SchemaRegistryUnavailable, "answers 503"),
        ((400, {}), SchemaNotUsable, "answers 400"),
        ((422, {}), SchemaNotUsable, "answers 422"),
        ((405, {}), SchemaRegistryError, "answers 405"),
        ((200, b"<html>"), SchemaRegistryError, "does not answer as a schema registry"),
        ((200, {"schema": 7}), SchemaRegistryError, "the answer for schema 1 has no schema"),
        ((200, {"schema": "", "schemaType": "XSD"}), SchemaNotUsable, "it is of 'XSD'"),
    ],
)
def test_http_registry_s_refusals_have_names(answer: Any, error: type[Exception], text: str) -> None:
    with served({"/schemas/ids/1": answer}) as registry, pytest.raises(error, match=text) as caught:
        ConfluentRegistry(registry.url).version("1")
    assert type(caught.value) is error


def test_http_registry_that_is_not_there_is_unavailable() -> None:
    with served({}) as registry:
        gone = registry.url
    with pytest.raises(SchemaRegistryUnavailable, match="cannot be reached"):
        ConfluentRegistry(gone).version("1")


def test_http_registry_gets_the_password_of_netrc_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login reader password secret\n")
    (tmp_path / ".netrc").chmod(0o600)
    with served({"/schemas/ids/1": (200, {"schema": ORDER_TEXT})}) as registry:
        assert ConfluentRegistry(registry.url).version("1") is not None
    assert registry.seen == [("/schemas/ids/1", "Basic cmVhZGVyOnNlY3JldA==")]


def test_formats_get_the_registry_that_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    clock = SystemClock()
    for text, kind in (("glue", GlueRegistry), ("confluent:http://127.0.0.1:1", ConfluentRegistry)):
        registry = registry_of(parsed_format(text), clock)
        assert isinstance(registry, CachedRegistry)
        assert isinstance(registry._registry, kind)
    assert [registry_of(parsed_format(text), clock) for text in ("json", "avro:orders.avsc")] == [None, None]
