"""Formats other than JSON on Spark: read by the executors, and split into parsed and rejected."""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from pyspark.sql import DataFrame, SparkSession
from sublet.errors import SettingsError
from sublet.payloads.encoding import encoder_of
from sublet.payloads.framing import for_confluent
from sublet.settings.payload_format import PayloadFormat, parsed_format
from sublet.spark.pipeline.judging import judge, parsed, raw, rejected
from sublet.spark.pipeline.running import recipe_of, run_pipeline
from sublet.spark.pipeline.settings import PipelineSettings, Sink, pipeline_settings
from sublet.spark.pipeline.tally import PlainLines, RunTally
from sublet.spark.read.rows import ARROW_SCHEMA
from sublet.system.clock import SystemClock

from infra.local import EmbeddedAws
from tests.doubles.http_registry import served
from tests.doubles.payload_schemas import ORDER_TEXT, avro_schema_file, descriptor_set_file, order
from tests.exploring import explores
from tests.spark.local_session import local_session

AT = datetime(2026, 1, 31, 8, tzinfo=UTC)
pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def spark(embedded_aws: EmbeddedAws) -> Iterator[SparkSession]:
    with local_session(embedded_aws) as session:
        yield session


def rows_of(spark: SparkSession, *data: bytes) -> DataFrame:
    rows = [(each, "key", None, str(number), 0, AT, "shard", "orders") for number, each in enumerate(data)]
    return spark.createDataFrame(
        rows,
        "data BINARY, partitionKey STRING, explicitHashKey STRING, sequenceNumber STRING, subSequenceNumber BIGINT, "
        "approximateArrivalTimestamp TIMESTAMP, shardId STRING, stream STRING",
    ).select(*ARROW_SCHEMA.names)


def settings(folder: Path, **given: Any) -> PipelineSettings:
    wanted = {
        "output": str(folder / "lake"),
        "checkpoint": None,
        "sink": Sink.PARQUET,
        "schema": None,
        "transform": None,
        "every": None,
        "options": {"stream": "orders"},
        "spark": {},
    }
    return pipeline_settings(**{**wanted, **given})


def judged(spark: SparkSession, given: PipelineSettings, *data: bytes) -> tuple[list[Any], list[str]]:
    """The parsed rows' own columns, in order, and the reasons of the rejected ones."""
    recipe = recipe_of(spark, given)
    assert recipe.schema is not None
    frame = judge(rows_of(spark, *data), recipe.schema, payload=recipe.payload).persist()
    names = recipe.schema.names
    fitting = parsed(frame, payload=recipe.payload).orderBy("sequenceNumber").collect()
    assert raw(frame).count() == len(data), "a record with several rows is in raw once"
    reasons = [row.reason for row in rejected(frame).orderBy("sequenceNumber").collect()]
    frame.unpersist()
    return [tuple(row[name] for name in names) for row in fitting], reasons


def test_avro_by_its_schema_file_has_its_columns(spark: SparkSession, tmp_path: Path) -> None:
    file = avro_schema_file(tmp_path)
    encode = encoder_of(parsed_format(f"avro:{file}"))
    given = settings(tmp_path, format="avro", schema=str(file))
    found, reasons = judged(spark, given, encode(order(1)), gzip.compress(encode(order(2))), b"\x02")
    assert found == [(number, 10.5, "DE", ["new", "ünïcode"]) for number in (1, 2)]
    assert [reason[:22] for reason in reasons] == ["not Avro by its schema"]


def test_protobuf_by_a_descriptor_set_fits_the_columns(spark: SparkSession, tmp_path: Path) -> None:
    text = f"protobuf:{descriptor_set_file(tmp_path)}:shop.Order"
    encode = encoder_of(parsed_format(text))
    given = settings(tmp_path, format=text, schema="id BIGINT NOT NULL, price FLOAT, state STRING, at TIMESTAMP")
    data = [encode({"id": 7, "price": 0.5, "state": "PAID", "at": "2026-01-31T08:00:00Z"}), encode({"price": 0.1})]
    found, reasons = judged(spark, given, *data, b"\x08")
    assert found == [(7, 0.5, "PAID", AT.astimezone().replace(tzinfo=None))]
    assert reasons[0] == "price: a number that 32 bits hold expected, found 0.1"
    assert reasons[1].startswith("not a shop.Order: ")


def test_lines_are_rows_of_their_own_and_their_record_is_in_raw_once(spark: SparkSession, tmp_path: Path) -> None:
    of_json = settings(tmp_path, format="jsonl", schema="id BIGINT")
    data = [b'{"id": 1}\n{"id": 2}\n', b'{"id": 3}\n{"id": "4"}', b""]
    found, reasons = judged(spark, of_json, *data)
    assert sorted(found) == [(1,), (2,)]
    assert sorted(reasons) == [
        'line 2.id: a whole number of 64 bits expected, found "4"',
        "the record: at least one line expected, found []",
    ]
    of_csv = settings(
        tmp_path, format="csv", schema="id BIGINT, price DECIMAL(9,2), at TIMESTAMP COMMENT 'epoch seconds'"
    )
    found, reasons = judged(spark, of_csv, b"1,1.50,1769846400\n2,,\n", b"1,1.505,0\n")
    assert [(number, price and str(price), at and at.year) for number, price, at in sorted(found)] == [
        *[(1, "1.50", 2026), (2, None, None)]
    ]
    assert reasons == ["line 1.price: a number of 9 digits (2 of them decimals) expected, found 1.505"]


def test_executors_ask_the_registry_once_for_a_version_and_reject_unknown_ones(
    spark: SparkSession, tmp_path: Path
) -> None:
    encode = encoder_of(parsed_format(f"avro:{avro_schema_file(tmp_path)}"))
    wanted = json.dumps({**json.loads(ORDER_TEXT), "fields": json.loads(ORDER_TEXT)["fields"][:2]})
    (tmp_path / "wanted.avsc").write_text(wanted)
    with served({"/schemas/ids/7": (200, {"schema": ORDER_TEXT})}) as registry:
        given = settings(tmp_path, format=f"confluent:{registry.url}", schema=str(tmp_path / "wanted.avsc"))
        data = [for_confluent("7", encode(order(number))) for number in range(20)]
        found, reasons = judged(spark, given, *data, for_confluent("8", encode(order())), b'{"id": 7}')
    assert sorted(found) == [(number, 10.5) for number in range(20)], "read as the schema of the pipeline"
    assert sorted(reasons) == [
        "not framed for Confluent's registry: it begins with byte 0 and has 5 bytes of framing",
        "schema version 8 is not in the registry",
    ]
    asked = [path for path, _ in registry.seen]
    assert asked.count("/schemas/ids/7") <= 2, "once in each of two Python workers"
    assert asked.count("/schemas/ids/8") == 1


def test_registry_that_denies_fails_the_batch(spark: SparkSession, tmp_path: Path) -> None:
    with served({"/schemas/ids/7": (403, {})}) as registry:
        given = settings(tmp_path, format=f"confluent:{registry.url}", schema="id BIGINT")
        with pytest.raises(Exception, match="SchemaRegistryAccessDenied"):
            judged(spark, given, for_confluent("7", b"\x00"))


def test_strict_parsing_rejects_a_repeated_key(spark: SparkSession, tmp_path: Path) -> None:
    data = b'{"id": 1, "id": 2}'
    assert judged(spark, settings(tmp_path, schema="id BIGINT"), data) == ([(2,)], [])
    assert judged(spark, settings(tmp_path, schema="id BIGINT", strict=True), data) == (
        [],
        ["not JSON: the key 'id' is repeated"],
    )


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_variants_in_a_parquet_table_are_what_the_records_say(spark: SparkSession, tmp_path: Path, form: str) -> None:
    documents = ['{"a":[1,-0.1,null,12345678901234567890123456789012345678]}', '"ü"', "true", "9007199254740993", "[]"]
    data = [f'{{"doc": {each}, "in": {{"doc": {each}, "n": 1}}}}'.encode() for each in documents]
    empty = [b'{"doc": null, "in": null}', b"{}"]
    long = f'{{"in": {{"doc": 0.5{"0" * 1100}}}}}'.encode()  # the same number as 0.5, and more digits than Spark reads
    given = settings(tmp_path, format=form, schema="doc VARIANT, `in` STRUCT<doc: VARIANT, n: INT>")
    recipe = recipe_of(spark, given)
    assert recipe.schema is not None
    frame = judge(rows_of(spark, *data, *empty, long, b'{"doc": 1e400}'), recipe.schema, payload=recipe.payload)
    parsed(frame, payload=recipe.payload).write.parquet(str(tmp_path / "parsed"))
    found = spark.read.parquet(str(tmp_path / "parsed")).orderBy("sequenceNumber")
    assert found.schema["doc"].dataType.simpleString() == "variant"
    rows = found.selectExpr("to_json(doc) AS doc", "to_json(`in`.doc) AS inner", "`in` IS NULL AS is_null").collect()
    assert [tuple(row) for row in rows] == [
        *((each, each, False) for each in documents),
        *((None, None, True) for _ in empty),
    ]
    reasons = [row.reason for row in rejected(frame).orderBy("sequenceNumber").collect()]
    assert reasons[0] == "in.doc: a value that VARIANT holds expected, found one too large or nested too deeply"
    assert reasons[1].removeprefix("line 1.") == "doc: a number that VARIANT holds expected, found 1e400"


def test_variant_is_refused_where_it_cannot_be_stored_or_read(spark: SparkSession, tmp_path: Path) -> None:
    wrong: Sequence[dict[str, Any]] = (
        {"sink": Sink.DELTA, "schema": "id BIGINT, `in` STRUCT<doc: VARIANT>"},
        {"sink": Sink.ICEBERG, "output": "here.orders", "checkpoint": str(tmp_path), "schema": "doc VARIANT"},
        {"format": "csv", "schema": "doc VARIANT"},
        {"schema": "docs ARRAY<VARIANT>"},
    )
    for given in wrong:
        with pytest.raises(SettingsError, match=r"setting schema[.\w\[\]]* = '?\"?variant"):
            recipe_of(spark, settings(tmp_path, **given))


def test_schema_file_and_format_are_refused_before_anything_is_read(spark: SparkSession, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere.avsc")
    wrong: Sequence[dict[str, Any]] = (
        {"format": "avro", "schema": nowhere},
        {"format": "protobuf:nowhere.desc:shop.Order", "schema": "id BIGINT"},
        {"format": "json", "schema": str(avro_schema_file(tmp_path))},
        {"format": "no_such_module:read", "schema": "id BIGINT"},
    )
    for given in wrong:
        with pytest.raises(SettingsError, match=r"setting (schema|format) = "):
            recipe_of(spark, settings(tmp_path, **given))


@explores
def test_pipeline_writes_tables_of_avro(spark: SparkSession, embedded_aws: EmbeddedAws, tmp_path: Path) -> None:
    kinesis, name = embedded_aws.client("kinesis"), f"avro-{os.getpid()}-{time.time_ns()}"
    kinesis.create_stream(StreamName=name, ShardCount=1)
    kinesis.get_waiter("stream_exists").wait(StreamName=name)
    file = avro_schema_file(tmp_path)
    encode = encoder_of(PayloadFormat(parsed_format(f"avro:{file}").kind, content=ORDER_TEXT.encode()))
    for data in (encode(order(1)), gzip.compress(encode(order(2))), b"nonsense"):
        kinesis.put_record(StreamName=name, Data=data, PartitionKey="a")
    time.sleep(1.1)  # available is what arrived before the run began, by the second
    tally = RunTally()
    given = settings(tmp_path, format="avro", schema=str(file), options={"stream": name})
    run_pipeline(spark, given, tally, PlainLines(print), SystemClock(), lambda: False)
    assert tally.rows == {"raw": 3, "parsed": 2, "rejected": 1}
    found = ds.dataset(tmp_path / "lake" / "parsed", partitioning="hive").to_table().to_pylist()
    assert sorted((row["id"], row["price"], tuple(row["tags"])) for row in found) == [
        *[(1, 10.5, ("new", "ünïcode")), (2, 10.5, ("new", "ünïcode"))]
    ]


@explores
def test_pipeline_adds_a_variant_to_a_parquet_table(
    spark: SparkSession, embedded_aws: EmbeddedAws, tmp_path: Path
) -> None:
    kinesis, name = embedded_aws.client("kinesis"), f"variant-{os.getpid()}-{time.time_ns()}"
    kinesis.create_stream(StreamName=name, ShardCount=1)
    kinesis.get_waiter("stream_exists").wait(StreamName=name)
    for number, schema in ((1, "id BIGINT"), (2, "id BIGINT, doc VARIANT")):
        for data in (f'{{"id": {number}, "doc": {{"n": [{number}, "x"]}}}}', f'{{"id": "{number}"}}'):
            kinesis.put_record(StreamName=name, Data=data.encode(), PartitionKey="a")
        time.sleep(1.1)  # available is what arrived before the run began, by the second
        tally, given = RunTally(), settings(tmp_path, schema=schema, options={"stream": name})
        run_pipeline(spark, given, tally, PlainLines(print), SystemClock(), lambda: False)
        assert tally.rows == {"raw": 2, "parsed": 1, "rejected": 1}
    found = spark.read.parquet(str(tmp_path / "lake" / "parsed")).orderBy("id").selectExpr("id", "to_json(doc) AS doc")
    assert [tuple(row) for row in found.collect()] == [(1, None), (2, '{"n":[2,"x"]}')]
