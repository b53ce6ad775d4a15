"""What the Parquet tables of a pipeline hold: the journal, whose newest text is the last batch's transaction. Pure.

A batch's files are written where no reader looks. Then the journal is written: it names the files and the tables'
positions, and with it the batch counts as written. Then the files are moved into the tables. If a crash ends that,
the next attempt moves the rest. Each text is a file of its own with a higher number, so a text that a crash has cut
short leaves the one before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sublet.errors import SettingsError
from sublet.spark.pipeline.evolution import Column
from sublet.spark.plan.table_positions import TablePositions

JOURNAL = "_sublet"
"""The folder of the journal, in the output."""

STAGED = f"{JOURNAL}/staged"
"""The folder of files that are not in a table yet: below it a folder for each attempt, and in that as in the output."""

COLUMNS_FILE = "_common_metadata"
"""A file in a table that readers take the columns from, instead of from some other file."""

NAME = r"(?!\.+$)[^/\\\x00-\x1f]+"
"""A part of a place. No `..`."""


@dataclass(frozen=True, slots=True)
class TableState:
    """What is known of a table. `partitions`: the columns that its folders are named by. `has_files`: whether it has
    got any."""

    positions: TablePositions
    columns: tuple[Column, ...]
    partitions: tuple[str, ...]
    has_files: bool = False


@dataclass(frozen=True, slots=True)
class Journal:
    """The state after a batch.

    moves    its staged files, each of which belongs to the same place below the output
    attempt  the folder in which they are staged
    """

    number: int = 0
    tables: Mapping[str, TableState] = field(default_factory=dict)
    moves: tuple[str, ...] = ()
    attempt: str = ""

    def next(self, number: int, tables: Mapping[str, TableState], moves: tuple[str, ...], attempt: str) -> Journal:
        return replace(self, number=number, tables={**self.tables, **tables}, moves=moves, attempt=attempt)

    def to_json(self) -> str:
        tables = {name: _table_to(state) for name, state in self.tables.items()}
        return json.dumps({"number": self.number, "tables": tables, "moves": self.moves, "attempt": self.attempt})

    @classmethod
    def from_json(cls, text: str | None) -> Journal | None:
        """None for anything else, because a crash may have left part of a text."""
        try:
            value = json.loads(text or "")
            tables = {str(name): _table_from(of) for name, of in value["tables"].items()}
            number = int(value["number"])  # in which its files were staged, in journals without an attempt
            return cls(number, tables, tuple(map(str, value["moves"])), str(value.get("attempt", number)))
        except (ValueError, KeyError, TypeError, AttributeError):
            return None


def _table_to(state: TableState) -> dict[str, Any]:
    return {
        "positions": state.positions.to_value(),
        "columns": state.columns,
        "partitions": state.partitions,
        "hasFiles": state.has_files,
    }


def _table_from(value: Any) -> TableState:
    positions, columns = TablePositions.from_value(value["positions"]), tuple(value["columns"])
    return TableState(positions, columns, tuple(map(str, value["partitions"])), value.get("hasFiles") is True)


def checked_moves(journal: Journal) -> tuple[str, ...]:
    """The moves. Anyone who can write to the output can write the text, so only files in a table's folders are
    allowed, and an attempt's name without a folder. Raises SettingsError for any other."""
    for place in (f"{journal.attempt}/{move}" for move in journal.moves):
        parts = place.split("/")
        if len(parts) < 3 or not all(re.fullmatch(NAME, part) for part in parts):
            raise SettingsError("output", place, f"its journal names a file that no batch writes: check {JOURNAL}")
    return journal.moves
