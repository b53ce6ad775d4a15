"""Writes one micro-batch: judges its rows once, makes tables of them, and writes these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from sublet.ports import Clock
from sublet.spark.pipeline.judging import judge, parsed, raw, rejected, with_arrival_date
from sublet.spark.pipeline.tables import Tables
from sublet.spark.pipeline.tally import BatchDone
from sublet.spark.pipeline.transforming import OWN_TABLES, Transform, transformed


@dataclass(frozen=True, slots=True)
class TransformRecipe:
    """Makes tables of a batch. `reference`: the transform's name, for errors."""

    schema: StructType | None = None
    transform: Transform | None = None
    reference: str = ""

    def tables(self, judged: DataFrame) -> dict[str, DataFrame]:
        """A batch's tables by name. The user's tables come last, and are made from `parsed` (or `raw`)."""
        tables = {"raw": raw(judged)}
        if self.schema is not None:
            tables |= {"parsed": parsed(judged), "rejected": rejected(judged)}
        if self.transform is not None:
            seen = tables["raw" if self.schema is None else "parsed"]
            tables |= transformed(self.transform, self.reference, seen)
        return tables


class NotBegun(Exception):
    """The run was asked to end before this batch began. Nothing of it is written, and the query ends with this
    exception."""


class WriteBatch:
    """Writes a micro-batch each time that `foreachBatch` calls it. Any error fails the query, and the next run repeats
    the batch.

    is_over      returns True once the run was asked to end: no more batches begin
    was_refused  True if a batch was refused for that reason
    """

    def __init__(
        self,
        recipe: TransformRecipe,
        sink: Tables,
        clock: Clock,
        report: Callable[[BatchDone], object],
        is_over: Callable[[], bool],
    ) -> None:
        self._recipe, self._sink, self._clock, self._report = recipe, sink, clock, report
        self._is_over, self.was_refused = is_over, False

    def __call__(self, rows: DataFrame, batch: int) -> None:
        """Writes the batch. Persists the rows and the user's tables meanwhile, so that each is computed once."""
        if self._is_over():
            self.was_refused = True
            raise NotBegun(f"batch {batch}")
        began, schema = self._clock.steady(), self._recipe.schema
        judged = with_arrival_date(rows) if schema is None else judge(rows, schema)
        kept = [judged.persist(StorageLevel.MEMORY_AND_DISK)]
        try:
            tables = self._recipe.tables(judged)
            kept += [
                table.persist(StorageLevel.MEMORY_AND_DISK) for name, table in tables.items() if name not in OWN_TABLES
            ]
            counted = self._sink.write(tables, batch)
        finally:
            for frame in reversed(kept):
                frame.unpersist()
        self._report(BatchDone(batch, counted, self._clock.steady() - began))
