"""Calls the user's `transform(df)` and checks what it returns."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame

from sublet.errors import SettingsError
from sublet.spark.pipeline.judging import ARRIVAL_DATE

Transform = Callable[[DataFrame], Mapping[str, DataFrame]]

OWN_TABLES = ("raw", "parsed", "rejected")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,99}")


def load_transform(reference: str) -> Transform:
    """Import `module:function`. Raises SettingsError, in one sentence that says which part of the reference is
    wrong.
    """
    module_name, colon, name = reference.partition(":")
    if not module_name or not colon or not name:
        raise SettingsError("transform", reference, "module:function, such as orders:tables")
    try:
        module = importlib.import_module(module_name)
    except Exception as failure:
        said = f"{type(failure).__name__}: {failure}"
        raise SettingsError("transform", reference, f"importing {module_name} raised {said}") from failure
    function = getattr(module, name, None)
    if not callable(function):
        raise SettingsError("transform", reference, f"module {module_name} has no function {name}")
    return function  # type: ignore[no-any-return]


def transformed(transform: Transform, reference: str, frame: DataFrame) -> dict[str, DataFrame]:
    """The DataFrames that the transform makes from a batch, by table name. Raises SettingsError for anything else."""
    made: object = transform(frame)
    if not isinstance(made, Mapping):
        wanted = "it must return a dict of table names and DataFrames"
        raise SettingsError("transform", reference, f"returned {type(made).__name__}: {wanted}")
    for name, table in made.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name in OWN_TABLES:
            allowed = f"a-z, 0-9 and _, and none of {', '.join(OWN_TABLES)}"
            raise SettingsError("transform", reference, f"table name {name!r}: {allowed}")
        if not isinstance(table, DataFrame):
            raise SettingsError("transform", reference, f"table {name} is of type {type(table).__name__}")
        _check_columns(reference, name, table)
    return dict(made)


def _check_columns(reference: str, name: str, table: DataFrame) -> None:
    kinds = {column.lower(): kind for column, kind in table.dtypes}
    if "batch" in kinds:
        raise SettingsError("transform", reference, f"table {name} has a column batch, which the pipeline adds")
    for column, kind in ((ARRIVAL_DATE, "date"), ("shardId", "string")):
        if kinds.get(column.lower(), kind) != kind:
            found = kinds[column.lower()]
            raise SettingsError(
                "transform", reference, f"table {name}: {column} is {found}; it partitions the table: {kind}"
            )
