"""Writes one micro-batch: judges its rows once, makes tables of what each table does not hold yet, and writes these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import permutations
from uuid import uuid4

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from sublet import __version__
from sublet.errors import SettingsError
from sublet.ports import Clock
from sublet.spark.pipeline.batch_extent import OffsetLog, extent_of
from sublet.spark.pipeline.judging import judge, parsed, raw, rejected, schema_version, with_arrival_date
from sublet.spark.pipeline.layout import Batch
from sublet.spark.pipeline.merge_rule import MERGED
from sublet.spark.pipeline.merged_table import MergedTable
from sublet.spark.pipeline.payload import JSON_PAYLOAD, Payload
from sublet.spark.pipeline.tables import Tables
from sublet.spark.pipeline.tally import BatchDone
from sublet.spark.pipeline.transforming import OWN_TABLES, Transform, transformed
from sublet.spark.plan.table_positions import BatchExtent, refuse_gap
from sublet.spark.positions import unwritten


@dataclass(frozen=True, slots=True)
class TransformRecipe:
    """Makes tables of a batch.

    reference  the transform's name, for errors
    payload    what the data is
    run        tells this run from all others
    folders    the columns of text by which `parsed` is divided into folders
    """

    schema: StructType | None = None
    transform: Transform | None = None
    reference: str = ""
    payload: Payload = JSON_PAYLOAD
    run: str = field(default_factory=lambda: uuid4().hex)
    folders: tuple[str, ...] = ()

    @property
    def judged_by(self) -> str | None:
        """Names the rule: the schema, what the data is, this release, and the run if another may judge otherwise for a
        reason outside.
        """
        if self.schema is None:
            return None
        run = self.run if self.payload.may_change else ""
        rule = (schema_version(self.schema), repr(self.payload), __version__, run, *self.folders)
        return sha256("\n".join(rule).encode()).hexdigest()[:12]

    @property
    def own_tables(self) -> tuple[str, ...]:
        return OWN_TABLES[:1] if self.schema is None else OWN_TABLES

    def judged(self, rows: DataFrame) -> DataFrame:
        if self.schema is None:
            return with_arrival_date(rows)
        return judge(rows, self.schema, payload=self.payload, folders=self.folders)

    def tables(self, judged: DataFrame) -> dict[str, DataFrame]:
        """A batch's tables by name. The user's tables come last, and are made from `parsed` (or `raw`)."""
        tables = {"raw": raw(judged)}
        if self.schema is not None:
            tables["parsed"] = parsed(judged, payload=self.payload)
            tables["rejected"] = rejected(judged, self.schema)
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

    offsets      the query's offset log
    merged       the table with one row per key, if there is one. It is merged before `rejected` is written, from all
                 rows that fit: the same rows again change nothing. So a batch that `rejected` holds is merged
    is_over      returns True once the run was asked to end: no more batches begin
    was_refused  True if a batch was refused for that reason
    """

    def __init__(
        self,
        recipe: TransformRecipe,
        sink: Tables,
        offsets: OffsetLog,
        clock: Clock,
        report: Callable[[BatchDone], object],
        is_over: Callable[[], bool],
        merged: MergedTable | None = None,
    ) -> None:
        self._recipe, self._sink, self._offsets = recipe, sink, offsets
        self._clock, self._report = clock, report
        self._is_over, self._merged, self.was_refused = is_over, merged, False

    def __call__(self, rows: DataFrame, batch: int) -> None:
        """Writes the batch. Persists the rows and the user's tables meanwhile, so that each is computed once."""
        if self._is_over():
            self.was_refused = True
            raise NotBegun(f"batch {batch}")
        began = self._clock.steady()
        judged = self._recipe.judged(rows)
        kept = [judged.persist(StorageLevel.MEMORY_AND_DISK)]
        try:
            extent = self._offsets.bounded(extent_of(judged), batch)
            extent = replace(extent, judged_by=self._recipe.judged_by)
            for name in self._recipe.own_tables:
                refuse_gap(name, self._sink.positions(name), extent, self._offsets.checkpoint, batch)
            passed_over, judged_twice = self._passed_over(extent), self._judged_twice(extent)
            tables = self._unwritten(judged, extent)
            if self._merged is not None and MERGED in tables:
                raise SettingsError("transform", self._recipe.reference, f"table name {MERGED!r}: merge-key writes it")
            kept += [
                table.persist(StorageLevel.MEMORY_AND_DISK) for name, table in tables.items() if name not in OWN_TABLES
            ]
            counted = self._write(tables, judged, Batch(batch, extent))
        finally:
            for frame in reversed(kept):
                frame.unpersist()
        self._report(BatchDone(batch, counted, self._clock.steady() - began, passed_over, judged_twice))

    def _write(self, tables: Mapping[str, DataFrame], judged: DataFrame, batch: Batch) -> dict[str, int]:
        """Returns the rows written by table, `merged` last."""
        if self._merged is None:
            return self._sink.write(tables, batch)
        first = {name: tables[name] for name in ("raw", "parsed")}
        counted = self._sink.write(first, batch)
        keys = self._merged.write(parsed(judged, payload=self._recipe.payload))
        rest = {name: frame for name, frame in tables.items() if name not in first}
        return {**counted, **self._sink.write(rest, batch), MERGED: keys}

    def _passed_over(self, extent: BatchExtent) -> frozenset[str]:
        """The shards of which `raw` has records that the tables made from it will not get."""
        raw_table, *others = (self._sink.positions(name) for name in self._recipe.own_tables)
        return frozenset(shard for other in others for shard in other.passed_over(raw_table, extent))

    def _judged_twice(self, extent: BatchExtent) -> frozenset[str]:
        """The shards of which one table has what another rule made of this batch, and the other gets what today's
        makes of it."""
        _, *judged = (self._sink.positions(name) for name in self._recipe.own_tables)
        pairs = permutations(judged, 2)
        return frozenset(shard for further, other in pairs for shard in further.judged_otherwise(other, extent))

    def _unwritten(self, judged: DataFrame, extent: BatchExtent) -> dict[str, DataFrame]:
        """The tables of the whole batch, each made from the rows that it does not hold. After a crash or a set-back
        checkpoint tables may differ in that; the transform is then called once for each difference."""
        made: dict[tuple[tuple[str, str], ...], dict[str, DataFrame]] = {}

        def tables_beyond(cut: Mapping[str, str]) -> dict[str, DataFrame]:
            key = tuple(sorted(cut.items()))
            if key not in made:
                made[key] = self._recipe.tables(unwritten(judged, cut))
            return made[key]

        cuts = {name: self._sink.positions(name).cut(extent) for name in tables_beyond({})}
        return {name: frame for name, cut in cuts.items() if (frame := tables_beyond(cut).get(name)) is not None}
