"""What the table `merged` has after its schema changes, for each kind of lake."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any

from pyspark.sql import SparkSession
from sublet.spark.pipeline.judging import judge, parsed
from sublet.spark.pipeline.merge_rule import MergeRule
from sublet.spark.pipeline.merged_table import open_merged
from sublet.spark.pipeline.running import schema_of
from sublet.spark.pipeline.settings import Sink

from tests.spark.source_rows import Records

OLD = "id INT NOT NULL, at INT NOT NULL, note STRING"

Rows = Callable[[], list[dict[str, Any]]]
"""The rows of the table `merged`."""


class MergedCase:
    """A table `merged`, of which each write may have another schema."""

    def __init__(self, spark: SparkSession, output: str, sink: Sink, checkpoint: str) -> None:
        self.spark, self.records = spark, Records(spark, Random(1))
        self._place: dict[str, Any] = {"output": output, "checkpoint": checkpoint, "sink": sink}

    def write(self, text: str, objects: Iterable[Mapping[str, Any]], *, key: str = "id", order_by: str = "at") -> None:
        """Merges new records, each of an object, by the schema `text`."""
        first = len(self.records.rows)
        self.records.add([json.dumps(each) for each in objects])
        self.write_again(text, self.records.rows[first:], key=key, order_by=order_by)

    def write_again(
        self, text: str, rows: list[dict[str, Any]], *, key: str = "id", order_by: str = "at", **how: Any
    ) -> None:
        schema = schema_of(self.spark, text)
        merged = open_merged(self.spark, rule=MergeRule(key=(key,), order_by=(order_by,)), schema=schema, **self._place)
        merged.write(parsed(judge(self.records.frame(rows), schema)), **how)


def assert_spelled_as_in_the_table(spark: SparkSession, output: str, sink: Sink, checkpoint: str, rows: Rows) -> None:
    case = MergedCase(spark, output, sink, checkpoint)
    case.write(OLD, [{"id": 1, "at": 1, "note": "a"}, {"id": 2, "at": 1, "note": "b"}])
    case.write(OLD.replace("note", "Note"), [{"id": 2, "at": 2, "Note": "e"}, {"id": 4, "at": 1, "Note": "f"}])
    spelled = OLD.replace("id", "Id").replace("at", "At").replace("note", "Note")
    later = [{"Id": 1, "At": 2, "Note": "c"}, {"Id": 3, "At": 1, "Note": "d"}]
    case.write(spelled, later, key="Id", order_by="At")
    assert {row["id"]: row["note"] for row in rows()} == {1: "c", 2: "e", 3: "d", 4: "f"}
    assert all({"Id", "At", "Note"}.isdisjoint(row) for row in rows())


def assert_one_record_a_row(spark: SparkSession, output: str, sink: Sink, checkpoint: str, rows: Rows) -> None:
    case = MergedCase(spark, output, sink, checkpoint)
    case.write(OLD, [{"id": 1, "at": 1, "note": "a"}, {"id": 2, "at": 1, "note": "b"}, {"id": 3, "at": 9, "note": "c"}])
    case.write("id INT NOT NULL, at INT NOT NULL", [{"id": 1, "at": 2}, {"id": 3, "at": 2}, {"id": 4, "at": 2}])
    assert {row["id"]: row["note"] for row in rows()} == {1: None, 2: "b", 3: "c", 4: None}


def assert_rewritten_by_todays_schema(
    spark: SparkSession, output: str, sink: Sink, checkpoint: str, rows: Rows
) -> None:
    """A column that is added is filled, one that is dropped keeps its value, and an older record changes nothing."""
    case = MergedCase(spark, output, sink, checkpoint)
    given = [{"id": 1, "at": 1, "note": "a", "more": 5}, {"id": 1, "at": 2, "note": "b", "more": 6}]
    case.write(OLD, [*given, {"id": 2, "at": 1, "note": "c", "more": 7}])
    today = "id INT NOT NULL, at INT NOT NULL, more INT"
    for records in (case.records.rows[:1], case.records.rows, case.records.rows):
        case.write_again(today, records, again=True)
    assert sorted((row["id"], row["note"], row["more"]) for row in rows()) == [(1, "b", 6), (2, "c", 7)]
    case.write_again(today, case.records.rows[:2])
    assert sorted((row["id"], row["note"], row["more"]) for row in rows()) == [(1, "b", 6), (2, "c", 7)]
