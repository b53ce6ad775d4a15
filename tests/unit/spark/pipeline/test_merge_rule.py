"""The rule of the table `merged`, and the SQL that follows from it, without Spark."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from sublet.errors import SettingsError
from sublet.spark.pipeline.merge import Merge, is_later, merge_sql, quoted
from sublet.spark.pipeline.merge_rule import DELETED_AT, MergeRule, fitting, merge_rule, settled


def schema(*fields: tuple[str, Any, bool]) -> dict[str, Any]:
    return {"type": "struct", "fields": [{"name": n, "type": kind, "nullable": null} for n, kind, null in fields]}


ORDERS = schema(("id", "long", False), ("At", "timestamp", False), ("note", "string", True), ("x", "double", False))


def test_a_rule_spells_columns_as_the_schema_does() -> None:
    rule = merge_rule("ID, note2", "at", "op = 'D'", schema="...")
    assert rule == MergeRule(key=("ID", "note2"), order_by=("at",), delete_when="op = 'D'")
    found = fitting(MergeRule(key=("ID",), order_by=("at",)), ORDERS)
    assert (found.key, found.order_by) == (("id",), ("At",))
    assert merge_rule(None, None, None, schema=None) is None


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("id", None, None, "s"), "setting order-by is required"),
        (("id", "at", None, None), "setting schema is required with merge-key"),
        ((None, "at", None, "s"), "setting order-by = 'at': needs merge-key"),
        ((None, None, "op", "s"), "setting delete-when = 'op': needs merge-key"),
        (("id,", "at", None, "s"), "setting merge-key = 'id,': columns"),
        (("id", "at,AT", None, "s"), "setting order-by = 'at,AT': columns of the schema, each once"),
        (("id", "at", " ", "s"), "setting delete-when = ' ': a condition"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(given: tuple[Any, ...], says: str) -> None:
    with pytest.raises(SettingsError) as refused:
        merge_rule(*given[:3], schema=given[3])
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("key", "order_by", "says"),
    [
        ("nr", "at", "setting merge-key = 'nr': a column of the schema: id, At, note, x"),
        ("id", "nr", "setting order-by = 'nr': a column of the schema"),
        ("note", "at", "setting merge-key = 'note': NOT NULL in the schema"),
        ("id", "note", "setting order-by = 'note': NOT NULL in the schema"),
        ("x", "at", "setting merge-key = 'x': a column of another type: double"),
    ],
)
def test_columns_that_do_not_suit_are_refused(key: str, order_by: str, says: str) -> None:
    with pytest.raises(SettingsError) as refused:
        fitting(MergeRule(key=(key,), order_by=(order_by,)), ORDERS)
    assert says in str(refused.value)


def test_a_column_that_the_pipeline_adds_is_refused() -> None:
    with pytest.raises(SettingsError, match="setting schema = 'deletedAt'"):
        fitting(MergeRule(key=("id",), order_by=("id",)), schema(("id", "long", False), ("deletedat", "date", True)))
    assert DELETED_AT == "deletedAt"


def test_a_rule_is_kept_beside_its_table() -> None:
    rule = MergeRule(key=("id",), order_by=("at",), delete_when="op = 'D'")
    assert settled(rule, None, has_table=False) == (rule, True)
    assert settled(rule, '{"key": ["i', has_table=False) == (rule, True)
    assert settled(rule, rule.to_json(), has_table=True) == (rule, False)
    other = MergeRule(key=("id",), order_by=("at",))
    assert settled(other, rule.to_json(), has_table=True) == (other, False)
    with pytest.raises(SettingsError, match="this one has a table merged that merge-key did not make"):
        settled(rule, None, has_table=True)
    with pytest.raises(SettingsError, match="setting order-by = 'x': at, as the table merged has it"):
        settled(MergeRule(key=("id",), order_by=("x",)), rule.to_json(), has_table=True)


def test_a_rule_spells_columns_as_the_table_that_is_there_does() -> None:
    rule, kept = MergeRule(key=("ID",), order_by=("at",)), MergeRule(key=("id",), order_by=("At",)).to_json()
    assert settled(rule, kept, has_table=True) == (MergeRule(key=("id",), order_by=("At",)), False)
    assert settled(rule, kept, has_table=False) == (rule, True)


def test_a_record_is_later_by_its_columns_and_then_by_its_position() -> None:
    """Each pair of versions, compared by a database and by Python."""
    rule = MergeRule(key=("id",), order_by=("a", "b"))
    columns = ("a", "b", "sequenceNumber", "subSequenceNumber", "stream", "shardId")
    versions = list(product((1, 2), (1, 2), ("9", "10", "11"), (0, 1), ("orders",), ("shard-0", "shard-1")))
    database = sqlite3.connect(":memory:")
    database.create_function("character_length", 1, len)
    names = ", ".join(map(quoted, columns))
    for table in ("s", "t"):
        database.execute(f"CREATE TABLE {table} ({names})")
        database.executemany(f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?, ?)", versions)  # noqa: S608
    found = [
        set(database.execute(f"SELECT * FROM s CROSS JOIN t WHERE {condition}").fetchall())  # noqa: S608
        for condition in (rule.update_if, rule.rewrite_if)
    ]
    database.close()

    def version(row: tuple[Any, ...]) -> tuple[Any, ...]:
        return (row[0], row[1], int(row[2]), row[3], row[4], row[5])

    later = {(*s, *t) for s in versions for t in versions if version(s) > version(t)}
    assert found == [later, later | {(*each, *each) for each in versions}]


def test_a_merge_names_its_columns() -> None:
    merge = Merge(on=("id",), update_if=is_later(["{row}.`at`"]))
    assert merge_sql("lake.merged", "rows", merge, ("id", "a`t")) == (
        "MERGE INTO lake.merged t USING rows s ON t.`id` = s.`id` "
        "WHEN MATCHED AND (s.`at` > t.`at` OR (s.`at` = t.`at` AND (false))) "
        "THEN UPDATE SET t.`id` = s.`id`, t.`a``t` = s.`a``t` "
        "WHEN NOT MATCHED THEN INSERT (`id`, `a``t`) VALUES (s.`id`, s.`a``t`)"
    )
    clear = replace(merge, clear_if="s.`at` > 1", insert=False)
    assert merge_sql("t1", "r", clear, ("id",), ("ID", "go`ne")).endswith(
        "THEN UPDATE SET t.`id` = s.`id`, t.`go``ne` = CASE WHEN NOT (s.`at` > 1) THEN t.`go``ne` END"
    )
    delete = Merge(on=("id",), insert=False, delete=True)
    assert merge_sql("t1", "r", delete, ("id",)).endswith("ON t.`id` = s.`id` WHEN MATCHED THEN DELETE")
