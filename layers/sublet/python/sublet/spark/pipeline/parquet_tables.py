"""Writes a batch into Parquet tables, for readers that do not know Spark's logs.

The files of a batch are written below `_sublet/staged`, then the journal (see `journal`) has them and the positions of
all tables in one text, and then they are moved into the tables. So no row is ever in a table twice, and the rest of an
interrupted batch is moved by the next attempt. Spark's own file sink would need a query per table, each of which would
read the stream again, and only Spark reads its `_spark_metadata`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from sublet.spark.pipeline.evolution import Column, evolution
from sublet.spark.pipeline.file_system import SparkFiles
from sublet.spark.pipeline.journal import COLUMNS_FILE, JOURNAL, STAGED, Journal, TableState, checked_moves
from sublet.spark.pipeline.layout import Batch, Layout, WriteFrame, columns_of, conformed, numbered
from sublet.spark.plan.table_positions import TablePositions


class ParquetTables:
    """The Parquet tables of one pipeline."""

    def __init__(
        self, spark: SparkSession, files: SparkFiles, output: str, layout: Layout, write_frame: WriteFrame
    ) -> None:
        self._spark, self._files, self._output = spark, files, output
        self._layout, self._write_frame = layout, write_frame
        self.journal = self._newest()
        self._move()

    def positions(self, table: str) -> TablePositions:
        state = self.journal.tables.get(table)
        return TablePositions() if state is None else state.positions

    def write(self, tables: Mapping[str, DataFrame], batch: Batch) -> dict[str, int]:
        self._move()
        self._files.delete(f"{self._output}/{STAGED}")
        counts, states = {}, {}
        for name, frame in tables.items():
            counts[name], state = self._stage(name, frame, batch)
            if state is not None:
                states[name] = state
        if states:
            changed = [f"{name}/{COLUMNS_FILE}" for name, state in states.items() if self._has_new_columns(name, state)]
            self.commit(states, (*changed, *(file.path for file in self._files.files(self._staged()))))
        return counts

    def commit(self, states: Mapping[str, TableState], moves: tuple[str, ...] = ()) -> None:
        """Notes the tables' states, and moves the staged files into the tables."""
        journal = self.journal.next(states, moves)
        self._files.write_text(self._place(journal.number), journal.to_json())
        self._files.delete(self._place(journal.number - 2))
        self.journal = journal
        self._move()

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
        return rows, TableState(reached, tuple(columns), tuple(partitions))

    def _stage_columns(self, name: str, columns: Sequence[Column], partitions: Sequence[str]) -> None:
        """A Parquet file without rows, which Spark takes the columns from when it reads the table."""
        kept = [dict(column) for column in columns if column["name"] not in partitions]
        schema = StructType.fromJson({"type": "struct", "fields": kept})
        folder = f"{self._output}/{JOURNAL}/columns"
        self._files.delete(folder)
        self._spark.createDataFrame([], schema).coalesce(1).write.parquet(folder)
        [file] = self._files.files(folder)
        self._files.move(f"{folder}/{file.path}", f"{self._staged()}/{name}/{COLUMNS_FILE}")
        self._files.delete(folder)

    def _newest(self) -> Journal:
        found = [
            Journal.from_json(self._files.read_text(f"{self._output}/{JOURNAL}/{file.path}"))
            for file in self._files.files(f"{self._output}/{JOURNAL}")
            if "/" not in file.path and file.path.endswith(".json")
        ]
        return max(
            (journal for journal in found if journal is not None), key=lambda each: each.number, default=Journal()
        )

    def _move(self) -> None:
        """Moves what the journal names and an earlier attempt has not moved."""
        for place in checked_moves(self.journal):
            self._files.move(f"{self._output}/{STAGED}/{self.journal.number}/{place}", f"{self._output}/{place}")

    def _has_new_columns(self, name: str, state: TableState) -> bool:
        known = self.journal.tables.get(name)
        return known is not None and known.columns != state.columns

    def _staged(self) -> str:
        """Where the next journal's files wait. Not where an earlier one's did, so that no journal moves others."""
        return f"{self._output}/{STAGED}/{self.journal.number + 1}"

    def _place(self, number: int) -> str:
        return f"{self._output}/{JOURNAL}/{number}.json"
