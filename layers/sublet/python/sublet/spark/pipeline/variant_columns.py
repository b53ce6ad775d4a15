"""Columns of type VARIANT: a task hands them to Spark as JSON, because Arrow has no such type, and Spark converts them.

They are columns, or fields of structs. An element of an array or a map is refused: the whole of it may be a VARIANT.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import StringType, StructField, StructType, VariantType

from sublet.errors import SettingsError
from sublet.spark.pipeline.merge import quoted
from sublet.spark.pipeline.settings import Sink

Path = tuple[str, ...]


def variant_paths(schema: StructType) -> list[Path]:
    paths: list[Path] = []
    for field in schema.fields:
        if isinstance(field.dataType, VariantType):
            paths.append((field.name,))
        elif isinstance(field.dataType, StructType):
            paths += [(field.name, *path) for path in variant_paths(field.dataType)]
    return paths


def check_sink(schema: StructType, sink: Sink) -> None:
    """Raises SettingsError for a VARIANT that the sink cannot store."""
    for path in variant_paths(schema):
        if sink is not Sink.PARQUET:
            wanted = f"another type, or --sink parquet: a pipeline's {sink} tables cannot store VARIANT"
            raise SettingsError(f"schema.{'.'.join(path)}", "variant", wanted)


def as_json_text(schema: StructType) -> StructType:
    """The schema with text in place of VARIANT."""
    return StructType([_as_json_text(field) for field in schema.fields])


def _as_json_text(field: StructField) -> StructField:
    kind = field.dataType
    if isinstance(kind, VariantType):
        kind = StringType()
    elif isinstance(kind, StructType):
        kind = as_json_text(kind)
    return StructField(field.name, kind, field.nullable, field.metadata)


def variants_of(schema: StructType) -> Callable[[Column], Column]:
    """Returns a function that makes a VARIANT of each text in a struct. A null struct stays null."""

    def convert(struct: Column) -> Column:
        converted = struct
        for field in schema.fields:
            part = struct.getField(field.name)
            if isinstance(field.dataType, VariantType):
                converted = converted.withField(quoted(field.name), F.try_parse_json(part))
            elif isinstance(field.dataType, StructType) and variant_paths(field.dataType):
                converted = converted.withField(quoted(field.name), variants_of(field.dataType)(part))
        return converted

    return convert


def beyond_variant(path: Path) -> Callable[[Column], Column]:
    """Returns a function: whether Spark makes no VARIANT of a struct's text: it is too large, or nested too deeply."""

    def is_beyond(struct: Column) -> Column:
        text = reduce(Column.getField, path, struct)
        return text.isNotNull() & F.try_parse_json(text).isNull()

    return is_beyond
