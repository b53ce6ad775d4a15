"""Splits rows into those that fit the schema and those that do not, as a step of a query, and makes the tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from sublet.errors import SettingsError
from sublet.spark.pipeline.json_fit import fit_of
from sublet.spark.pipeline.layout import beyond_folder
from sublet.spark.pipeline.parsing import PARSED, REASON, parse_array
from sublet.spark.pipeline.payload import JSON_PAYLOAD, Payload
from sublet.spark.pipeline.variant_columns import as_json_text, beyond_variant, variant_paths, variants_of
from sublet.spark.read.rows import ARROW_SCHEMA
from sublet.spark.release import arrow_type, with_column

ARRIVAL_DATE = "arrivalDate"
SCHEMA_VERSION = "schemaVersion"
_COLUMNS = (*ARROW_SCHEMA.names, ARRIVAL_DATE)
_WHENCE = tuple(name for name in _COLUMNS if name not in ("data", "explicitHashKey"))
_ARRIVAL_DATE_SQL = "date_from_unix_date(cast(floor(unix_micros(approximateArrivalTimestamp) / 86400000000) as int))"
"""The arrival date in UTC, whatever the session's time zone is."""


def check_schema(schema: StructType) -> None:
    """Raises SettingsError for a type that JSON cannot represent, and for a column that the pipeline adds itself."""
    fit_of(schema.jsonValue())
    taken = {name.lower(): name for name in (*_WHENCE, "batch")}
    names = [field.name.lower() for field in schema.fields]
    for name in names:
        if name in taken:
            raise SettingsError("schema", name, f"another name: the pipeline adds a column {taken[name]}")
        if names.count(name) > 1:
            raise SettingsError("schema", name, "each name once: to Spark, Id and id are the same")


def judge(
    rows: DataFrame,
    schema: StructType,
    also: Sequence[str] = (),
    payload: Payload = JSON_PAYLOAD,
    folders: Sequence[str] = (),
) -> DataFrame:
    """The source's rows, with `arrivalDate`, and either `parsed`, a struct of `schema`, or an array of them if the
    payload has lines, or the `reason` why it does not fit. `also`: more columns of the rows to keep. `folders`: the
    columns of text by which the table `parsed` is divided into folders.

    Works on batches and streams, and makes no calls to Spark: a declarative pipeline allows none while its tables are
    being defined. The package must be installed on the executors.
    """
    row = as_json_text(schema)
    value = ArrayType(row, containsNull=False) if payload.has_lines else row
    kind = StructType([StructField(PARSED, value), StructField(REASON, StringType())])
    text, arrow_kind = schema.json(), arrow_type(kind)

    def parse(data: pa.Array) -> Iterator[pa.Array]:
        return parse_array(text, arrow_kind, data, payload)

    judged = with_column(with_arrival_date(rows, also), "judged", kind, parse, of="data")
    judged = judged.select(*_COLUMNS, *also, f"judged.{PARSED}", f"judged.{REASON}")
    judged = _with_variants(judged, schema, also, payload) if variant_paths(schema) else judged
    return _naming_folders(judged, folders, also, payload) if folders else judged


def _with_variants(judged: DataFrame, schema: StructType, also: Sequence[str], payload: Payload) -> DataFrame:
    """The judged rows with VARIANT in place of its text. A record of which Spark makes none is rejected."""
    reason = F.col(REASON)
    for path in variant_paths(schema):
        name, wanted = ".".join(path), "a value that VARIANT holds expected, found one too large or nested too deeply"
        is_beyond = beyond_variant(path)
        found = F.exists(PARSED, is_beyond) if payload.has_lines else is_beyond(F.col(PARSED))
        reason = F.coalesce(reason, F.when(found, F.lit(f"{name}: {wanted}")))
    convert = variants_of(schema)
    rows = F.transform(PARSED, convert) if payload.has_lines else convert(F.col(PARSED))
    return judged.select(*_COLUMNS, *also, F.when(reason.isNull(), rows).alias(PARSED), reason.alias(REASON))


def _naming_folders(judged: DataFrame, folders: Sequence[str], also: Sequence[str], payload: Payload) -> DataFrame:
    """The judged rows. A record is rejected whose text no folder can have in its name, or which would be read as null
    there."""
    reason = F.col(REASON)
    for name in folders:
        is_beyond = beyond_folder(name)
        found = F.exists(PARSED, is_beyond) if payload.has_lines else is_beyond(F.col(PARSED))
        wanted = "text for a folder's name expected, found one that is empty, has NUL, or is too long"
        reason = F.coalesce(reason, F.when(found, F.lit(f"{name}: {wanted}")))
    return judged.select(*_COLUMNS, *also, F.when(reason.isNull(), F.col(PARSED)).alias(PARSED), reason.alias(REASON))


def with_arrival_date(rows: DataFrame, also: Sequence[str] = ()) -> DataFrame:
    return rows.select(*ARROW_SCHEMA.names, F.expr(_ARRIVAL_DATE_SQL).alias(ARRIVAL_DATE), *also)


def raw(judged: DataFrame) -> DataFrame:
    """Every row, with its bytes."""
    return judged.select(*_COLUMNS)


def parsed(judged: DataFrame, also: Sequence[str] = (), payload: Payload = JSON_PAYLOAD) -> DataFrame:
    """The rows that fit: the schema's columns, and where each row comes from. Each line of a record is a row."""
    fitting = judged.where(F.col(REASON).isNull())
    if payload.has_lines:
        fitting = fitting.withColumn(PARSED, F.explode(PARSED))
    return fitting.select(f"{PARSED}.*", *_WHENCE, *also)


def rejected(judged: DataFrame, schema: StructType | None = None, also: Sequence[str] = ()) -> DataFrame:
    """The rows that do not fit: the `reason`, all columns of `raw`, and the version of the schema if it is given."""
    version = [] if schema is None else [F.lit(schema_version(schema)).alias(SCHEMA_VERSION)]
    return judged.where(F.col(REASON).isNotNull()).select(REASON, *_COLUMNS, *also, *version)


def schema_version(schema: StructType) -> str:
    """A short text that is the same for the same schema, and for no other one in practice."""
    return sha256(schema.json().encode()).hexdigest()[:12]
