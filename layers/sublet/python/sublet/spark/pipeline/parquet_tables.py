"""Writes a batch into Parquet tables, for readers that do not know Spark's logs.

The files of a batch are written below `_sublet/staged`, then the journal (see `journal`) has them and the positions of
all tables in one text, and then they are moved into the tables. So no row is ever in a table twice, and the rest of an
interrupted batch is moved by the next attempt. Each attempt stages in a folder of its own, and notes its journal under
a number that was free when it read the one before: of two drivers that write at once, one commits. Spark's own file
sink would need a query per table, each of which would read the stream again, and only Spark reads its
`_spark_metadata`.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from sublet.spark.pipeline.attempts import ABANDONED_MILLIS, written_by_another_run
from sublet.spark.pipeline.evolution import Column, evolution
from sublet.spark.pipeline.file_system import SparkFiles
from sublet.spark.pipeline.journal import COLUMNS_FILE, JOURNAL, STAGED, Journal, TableState, checked_moves
from sublet.spark.pipeline.layout import Batch, Layout, WriteFrame, columns_of, conformed, numbered
from sublet.spark.plan.table_positions import TablePositions

BEGUN = ".begun"
"""A file beside an attempt's folder, which says when it began."""


class ParquetTables:
    """The Parquet tables of one pipeline."""

    def __init__(
        self, spark: SparkSession, files: SparkFiles, output: str, layout: Layout, write_frame: WriteFrame
    ) -> None:
        self._spark, self._files, self._output = spark, files, output
        self._layout, self._write_frame = layout, write_frame
        self.journal = self._newest()
        for number in self._numbers():
            if number > self.journal.number:
                self._remove_torn(number)
        self._number = self.journal.number + 1
        self._attempt = ""
        self._move()
        self._forget_deleted()

    def positions(self, table: str) -> TablePositions:
        state = self.journal.tables.get(table)
        return TablePositions() if state is None else state.positions

    def write(self, tables: Mapping[str, DataFrame], batch: Batch) -> dict[str, int]:
        self._move()
        self._begin()
        counts, states = {}, {}
        try:
            for name, frame in tables.items():
                counts[name], state = self._stage(name, frame, batch)
                if state is not None:
                    states[name] = state
        except Exception:
            self._remove(self._attempt)
            raise
        if states:
            changed = [f"{name}/{COLUMNS_FILE}" for name, state in states.items() if self._has_new_columns(name, state)]
            self.commit(states, (*changed, *(file.path for file in self._files.files(self._staged()))))
        self._remove(self._attempt)
        return counts

    def commit(self, states: Mapping[str, TableState], moves: tuple[str, ...] = ()) -> None:
        """Notes the tables' states, and moves the staged files into the tables. Raises SettingsError if another driver
        has done so."""
        before, journal = self.journal, self.journal.next(self._number, states, moves, self._attempt)
        is_ours = not moves or self._files.exists(self._staged() + BEGUN)
        is_free = is_ours and self._is_newest(before)
        if not is_free or not self._files.write_new_text(self._place(journal.number), journal.to_json()):
            raise written_by_another_run(self._output)
        if not self._is_newest(journal):
            raise written_by_another_run(self._output)
        self.journal, self._number = journal, journal.number + 1
        for number in self._numbers():
            if number < before.number:
                self._files.delete(self._place(number))
        self._move()

    def _begin(self) -> None:
        """Begins an attempt, and removes what abandoned ones left, by the file system's own clock."""
        self._attempt = secrets.token_hex(8)
        self._files.write_text(self._staged() + BEGUN, "")
        folder = f"{self._output}/{STAGED}"
        begun = {file.path.removesuffix(BEGUN): file.modified for file in self._files.files_in(folder)}
        abandoned_at = begun[self._attempt] - ABANDONED_MILLIS
        found = sorted({*begun, *self._files.folders(folder)})
        abandoned = [attempt for attempt in found if begun.get(attempt, 0) <= abandoned_at]
        if abandoned and self._is_newest(self.journal):
            for attempt in abandoned:
                self._remove(attempt)

    def _remove(self, attempt: str) -> None:
        """The mark goes first, so that a driver that still writes there sees it before it commits."""
        self._files.delete(f"{self._output}/{STAGED}/{attempt}{BEGUN}")
        self._files.delete(f"{self._output}/{STAGED}/{attempt}")

    def _stage(self, name: str, frame: DataFrame, batch: Batch) -> tuple[int, TableState | None]:
        """Writes the files of a table. Returns its rows, and its state once they are moved; None if nothing moves."""
        known = self.journal.tables.get(name)
        held = self.positions(name)
        reached = held.advanced(batch.extent)
        if reached is held:
            return 0, None
        rows = int(frame.count())
        given = numbered(frame, batch.number)
        columns, partitions = columns_of(given), self._layout.partitions_of(frame)
        if known is not None:
            change = evolution(name, known.columns, columns, lambda _ours, _theirs: True)
            columns, partitions = list(change.columns), list(known.partitions)
            if change.added or change.widened:
                self._stage_columns(name, columns, partitions)
        if rows:
            self._write_frame(
                self._layout.gathered(conformed(given, columns), batch.extent),
                f"{self._staged()}/{name}",
                partitions,
            )
        has_files = rows > 0 or (known is not None and known.has_files)
        return rows, TableState(reached, tuple(columns), tuple(partitions), has_files)

    def _stage_columns(self, name: str, columns: Sequence[Column], partitions: Sequence[str]) -> None:
        """A Parquet file without rows, which Spark takes the columns from when it reads the table."""
        kept = [dict(column) for column in columns if column["name"] not in partitions]
        schema = StructType.fromJson({"type": "struct", "fields": kept})
        folder = f"{self._staged()}/_columns"
        self._spark.createDataFrame([], schema).coalesce(1).write.parquet(folder)
        [file] = self._files.files(folder)
        self._files.move(f"{folder}/{file.path}", f"{self._staged()}/{name}/{COLUMNS_FILE}")
        self._files.delete(folder)

    def _newest(self) -> Journal:
        """Of the texts that are whole."""
        found = (Journal.from_json(self._files.read_text(self._place(number))) for number in reversed(self._numbers()))
        return next((journal for journal in found if journal is not None), Journal())

    def _remove_torn(self, number: int) -> None:
        """Sets the text aside first, where nobody finds it, and looks again: another driver may have written the rest
        since, and committed. Raises SettingsError then."""
        place = self._place(number)
        aside = f"{place}.{secrets.token_hex(8)}"
        self._files.move(place, aside)
        if Journal.from_json(self._files.read_text(aside)) is not None:
            self._files.move(aside, place)
            raise written_by_another_run(self._output)
        self._files.delete(aside)

    def _is_newest(self, journal: Journal) -> bool:
        """Whether no other driver has written another one."""
        newest = self._newest()
        return (newest.number, newest.attempt) == (journal.number, journal.attempt)

    def _numbers(self) -> list[int]:
        """Of all journals that are there, whole or not."""
        names = (name.partition(".") for name in self._files.names(f"{self._output}/{JOURNAL}"))
        return sorted(int(number) for number, _, kind in names if kind == "json" and number.isdecimal())

    def _move(self) -> None:
        """Moves what the journal names and an earlier attempt has not moved. A file of columns is replaced."""
        for place in checked_moves(self.journal):
            staged, target = f"{self._output}/{STAGED}/{self.journal.attempt}/{place}", f"{self._output}/{place}"
            if place.endswith(f"/{COLUMNS_FILE}"):
                self._files.copy(staged, target)
            else:
                self._files.move(staged, target)

    def _forget_deleted(self) -> None:
        """A table whose folder somebody has deleted is a new one, as on the other sinks."""
        tables = self.journal.tables.items()
        kept = {
            name: state for name, state in tables if not state.has_files or self._files.exists(f"{self._output}/{name}")
        }
        self.journal = replace(self.journal, tables=kept)

    def _has_new_columns(self, name: str, state: TableState) -> bool:
        known = self.journal.tables.get(name)
        return known is not None and known.columns != state.columns

    def _staged(self) -> str:
        return f"{self._output}/{STAGED}/{self._attempt}"

    def _place(self, number: int) -> str:
        return f"{self._output}/{JOURNAL}/{number}.json"
