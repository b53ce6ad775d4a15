"""What fits the schema and what does not, as a step of a query; and the tables that come of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_type
from pyspark.sql.types import DateType, StringType, StructField, StructType

from sublet.errors import SettingsError
from sublet.runtimes.spark.pipeline.json_fit import fit_of
from sublet.runtimes.spark.pipeline.parsing import PARSED, REASON, parse_batches
from sublet.runtimes.spark.rows import ARROW_SCHEMA

ARRIVAL_DATE = "arrivalDate"
_WHENCE = tuple(name for name in ARROW_SCHEMA.names if name not in ("data", "explicitHashKey"))
_ARRIVAL_DATE_SQL = (
    "date_from_unix_date(cast(floor(unix_micros(approximateArrivalTimestamp) / 86400000000) as int))"
)
"""In UTC, whatever the session's time zone is."""


def check_schema(schema: StructType) -> None:
    """Raises SettingsError for a type that JSON has nothing for, and for a column that the pipeline adds itself."""
    fit_of(schema.jsonValue())
    taken = {name.lower(): name for name in (*_WHENCE, ARRIVAL_DATE, "batch")}
    names = [field.name.lower() for field in schema.fields]
    for name in names:
        if name in taken:
            raise SettingsError("schema", name, f"another name: the pipeline adds a column {taken[name]}")
        if names.count(name) > 1:
            raise SettingsError("schema", name, "each name once: to Spark, Id and id are the same")


def judge(rows: DataFrame, schema: StructType) -> DataFrame:
    """The source's rows, with `arrivalDate`, and with either `parsed`, a struct of `schema`, or the `reason` why not.

    Works on batches and on streams, and asks Spark nothing: a declarative pipeline allows no question while its tables are
    being defined. The package has to be installed on the executors.
    """
    return with_arrival_date(rows).mapInArrow(partial(_in_task, schema.jsonValue()), _judged_schema(schema))


def with_arrival_date(rows: DataFrame) -> DataFrame:
    return rows.select(*ARROW_SCHEMA.names, F.expr(_ARRIVAL_DATE_SQL).alias(ARRIVAL_DATE))


def _judged_schema(schema: StructType) -> StructType:
    source = from_arrow_schema(ARROW_SCHEMA)
    added = (
        StructField(ARRIVAL_DATE, DateType()),
        StructField(PARSED, schema),
        StructField(REASON, StringType()),
    )
    return StructType([*source.fields, *added])


def _in_task(schema: Mapping[str, Any], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    kind = to_arrow_type(StructType.fromJson(dict(schema)), timezone="UTC")
    return parse_batches(schema, kind, batches)


def raw(judged: DataFrame) -> DataFrame:
    """Every row, with its bytes."""
    return judged.drop(PARSED, REASON)


def parsed(judged: DataFrame) -> DataFrame:
    """The rows that fit: the schema's columns, and where each is from."""
    fitting = judged.where(F.col(REASON).isNull())
    return fitting.select(f"{PARSED}.*", *_WHENCE, ARRIVAL_DATE)


def rejected(judged: DataFrame) -> DataFrame:
    """The rows that do not fit: the `reason`, and all that `raw` has."""
    return judged.where(F.col(REASON).isNotNull()).drop(PARSED)
