"""A merge of rows into a table, as a value, and as the SQL that Spark and `deltalake` both understand (pure).

In the SQL, `t` is a row of the table, and `s` a source row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

ALWAYS = "true"


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """What a merge does. A source row matches the table's row with the same values in the columns `on`.

    update_if   SQL: whether a source row replaces the row that it matches; None: it never does
    insert      whether a source row that matches nothing is added
    delete      whether a matched row is removed instead
    clear_if    SQL: whether a column that the source lacks becomes null in a row that is replaced; None: it never does
    """

    on: tuple[str, ...]
    update_if: str | None = None
    insert: bool = True
    delete: bool = False
    clear_if: str | None = None

    @property
    def matching(self) -> str:
        return " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in self.on)

    def updates(self, source: Sequence[str], table: Sequence[str]) -> dict[str, str]:
        """What a row that is replaced gets: SQL by the quoted column. `source`, `table`: the columns of both."""
        values = {quoted(name): f"s.{quoted(name)}" for name in source}
        if self.clear_if is None:
            return values
        given = {name.lower() for name in source}
        lacking = [quoted(name) for name in table if name.lower() not in given]
        return values | {name: f"CASE WHEN NOT ({self.clear_if}) THEN t.{name} END" for name in lacking}


def merge_sql(table: str, source: str, merge: Merge, columns: Sequence[str], of_table: Sequence[str] = ()) -> str:
    """The MERGE statement. It names the columns, because the table may have more of them (`of_table`) than the
    source."""
    clauses = []
    if merge.delete:
        clauses.append("WHEN MATCHED THEN DELETE")
    elif merge.update_if is not None:
        updates = ", ".join(f"t.{name} = {value}" for name, value in merge.updates(columns, of_table).items())
        clauses.append(f"WHEN MATCHED AND ({merge.update_if}) THEN UPDATE SET {updates}")
    if merge.insert:
        names, values = (", ".join(f"{row}{quoted(name)}" for name in columns) for row in ("", "s."))
        clauses.append(f"WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})")  # noqa: S608 - names are quoted
    head = f"MERGE INTO {table} t USING {source} s ON {merge.matching}"
    return " ".join([head, *clauses])


def is_later(expressions: Iterable[str], *, or_same: bool = False) -> str:
    """SQL: whether `s` is later than `t` by the first expression in which they differ; `or_same` if there is none. An
    expression has `{row}` where the row's name belongs. None of them may be null."""
    pairs = [(each.format(row="s"), each.format(row="t")) for each in expressions]
    condition = "true" if or_same else "false"
    for source, table in reversed(pairs):
        condition = f"{source} > {table} OR ({source} = {table} AND ({condition}))"
    return condition


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
