"""Writes a batch into Delta tables, each in one transaction with the table's positions.

Spark's tasks write the files, delta-rs reads their statistics (as `convert_to_deltalake` does), and `deltalake` commits
them: its own writer would take every row through the driver. Delta's own writer can name one transaction, and no
positions, so the transaction's number points to a file of positions that was written before it.

The number is the table's own counter, with chance in its last 20 bits. Only the file that a committed transaction
names is ever read, so an attempt that ended before its commit changes nothing, and a later one removes its files. Of
two drivers that write at once, delta-rs lets one commit.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from deltalake import CommitProperties, DeltaTable, Schema, Transaction, convert_to_deltalake
from deltalake.transaction import AddAction, create_table_with_add_actions
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from sublet.errors import SettingsError
from sublet.spark.pipeline.attempts import ABANDONED_MILLIS, written_by_another_run
from sublet.spark.pipeline.evolution import Column, Evolution, Type, evolution
from sublet.spark.pipeline.file_system import ListedFile, SparkFiles
from sublet.spark.pipeline.layout import NULL_FOLDER, Batch, Layout, WriteFrame, columns_of, conformed, numbered
from sublet.spark.pipeline.merge import quoted
from sublet.spark.plan.table_positions import TablePositions
from sublet.spark.release import arrow_schema

POSITIONS = "_sublet"
"""The folder in a table with its positions. Delta's vacuum leaves such names alone."""

_CHANCE_BITS = 20

STATISTICS_OF = "delta.dataSkippingStatsColumns"
"""The table property that names the columns of which a file's least and largest values are kept."""

_EXACT_DIGITS = 15
"""How many digits a decimal may have: delta-rs notes its least and largest value as floating-point numbers."""

_DECIMAL = re.compile(r"decimal\((\d+),\d+\)")
_ORDERED = ("byte", "short", "integer", "long", "float", "double", "date", "timestamp", "timestamp_ntz", "string")
"""The other types of columns that Delta allows in the property."""


@dataclass(frozen=True, slots=True)
class DeltaPositions:
    """The positions of a Delta table, as of its newest transaction of this pipeline.

    version   that transaction's number; None if the table has none
    previous  the number before it
    """

    positions: TablePositions = field(default_factory=TablePositions)
    version: int | None = None
    previous: int | None = None


class DeltaTables:
    """The Delta tables of one pipeline. `pipeline_id` identifies the pipeline in transactions."""

    def __init__(
        self,
        files: SparkFiles,
        output: str,
        pipeline_id: str,
        layout: Layout,
        write_frame: WriteFrame,
        chance: Callable[[int], int] = secrets.randbits,
    ) -> None:
        self._files, self._output, self._layout, self._write_frame = files, output, layout, write_frame
        self.app_id, self._chance = f"{pipeline_id}/positions", chance
        self._read: dict[str, int | None] = {}

    def positions(self, table: str) -> TablePositions:
        held = self.held(table)
        self._read[table] = held.version
        return held.positions

    def write(self, tables: Mapping[str, DataFrame], batch: Batch) -> dict[str, int]:
        return {name: self._write(name, frame, batch) for name, frame in tables.items()}

    def opened(self, name: str) -> DeltaTable | None:
        uri = delta_uri(self._files.absolute(f"{self._output}/{name}"))
        return DeltaTable(uri) if DeltaTable.is_deltatable(uri) else None

    def held(self, name: str, table: DeltaTable | None = None) -> DeltaPositions:
        """Raises SettingsError if the file that the table names is gone."""
        table = table or self.opened(name)
        version = self._version(table)
        if version is None:
            return DeltaPositions()
        place = self._place(name, version)
        text = self._files.read_text(place)
        if text is None:
            raise SettingsError("output", place, "the table's positions are gone: put the file back from a copy")
        value = json.loads(text)
        return DeltaPositions(TablePositions.from_value(value["positions"]), version, value["previous"])

    def begin(self, name: str, held: DeltaPositions, reached: TablePositions) -> Transaction:
        """Writes the positions of the next transaction, which has to be committed with the rows. Removes what
        abandoned attempts left."""
        counter = 1 + ((held.version or 0) >> _CHANCE_BITS)
        version = (counter << _CHANCE_BITS) | self._chance(_CHANCE_BITS)
        value = {"positions": reached.to_value(), "previous": held.version}
        self._files.write_text(self._place(name, version), json.dumps(value))
        self._remove_abandoned(name, held, version)
        return Transaction(self.app_id, version)

    def _remove_abandoned(self, name: str, held: DeltaPositions, ours: int) -> None:
        """By the file system's own clock. Nothing if another driver has committed since."""
        listed = self._files.files(f"{self._output}/{name}/{POSITIONS}")
        written = {int(file.path.removesuffix(".json")): file.modified for file in listed}
        if held.previous in written:
            self._files.delete(self._place(name, held.previous))
        others = written.keys() - {ours, held.version, held.previous}
        abandoned = sorted(version for version in others if written[version] <= written[ours] - ABANDONED_MILLIS)
        if abandoned and self._version(self.opened(name)) == held.version:
            for version in abandoned:
                self._remove(name, version)

    def _remove(self, name: str, version: int) -> None:
        """Of an attempt that will not be committed. The positions go first, so that a driver that still writes sees it
        before it commits."""
        self._files.delete(self._place(name, version))
        self._files.delete(f"{self._output}/{name}/{_folder(version)}")

    def move(self, name: str, reached: TablePositions) -> None:
        """Sets the positions of an existing table, without rows."""
        table = self.opened(name)
        if table is None:
            raise SettingsError("output", name, "there is no such Delta table")
        held = self.held(name, table)
        if self._read.get(name, held.version) != held.version:
            raise written_by_another_run(name)
        commit = CommitProperties(app_transactions=[self.begin(name, held, reached)])
        schema, partitions = table.schema(), table.metadata().partition_columns
        table.create_write_transaction([], "append", schema, partitions, commit_properties=commit)

    def _write(self, name: str, frame: DataFrame, batch: Batch) -> int:
        table = self.opened(name)
        held = self.held(name, table)
        if self._read.get(name, held.version) != held.version:
            raise written_by_another_run(name)
        given = numbered(frame, batch.number)
        columns, partitions = columns_of(given), self._layout.partitions_of(frame)
        # Refused also if there is nothing to add: another table of the batch would be made by the new schema.
        change = None if table is None else self._change(name, table, columns)
        reached = held.positions.advanced(batch.extent)
        if reached is held.positions:
            return 0
        rows = int(frame.count())
        if table is not None and change is not None:
            columns, partitions = list(change.columns), table.metadata().partition_columns
            if change.added:
                table.alter.add_columns(_schema(change.added).fields)
            keep_statistics_exact(table)
            if self._version(table) != held.version:
                raise written_by_another_run(name)
        schema = _schema(columns)
        transaction = self.begin(name, held, reached)
        adds: list[AddAction] = []
        if rows:
            try:
                adds = self._written(name, conformed(given, columns), batch, transaction.version, columns, partitions)
                self._check_whole(name, transaction.version, adds, rows)
            except Exception:
                self._remove(name, transaction.version)
                raise
        commit = CommitProperties(app_transactions=[transaction])
        if table is None:
            uri = delta_uri(self._files.absolute(f"{self._output}/{name}"))
            kept = exact_statistics(columns, partitions)
            create_table_with_add_actions(
                uri, schema, adds, "error", partitions, configuration=kept, commit_properties=commit
            )
        else:
            table.create_write_transaction(adds, "append", schema, partitions, commit_properties=commit)
        return rows

    def _written(
        self,
        name: str,
        frame: DataFrame,
        batch: Batch,
        version: int,
        columns: Sequence[Column],
        partitions: Sequence[str],
    ) -> list[AddAction]:
        place = _folder(version)
        folder = f"{self._output}/{name}/{place}"
        self._write_frame(self._layout.gathered(frame, batch.extent), folder, list(partitions))
        return self._adds(folder, place, columns, partitions)

    def _check_whole(self, name: str, version: int, adds: Sequence[AddAction], rows: int) -> None:
        """Raises SettingsError if another driver has removed some of the files."""
        written = sum(json.loads(add.stats)["numRecords"] for add in adds)
        if written != rows or not self._files.exists(self._place(name, version)):
            raise written_by_another_run(name)

    def _change(self, name: str, table: DeltaTable, rows: Sequence[Column]) -> Evolution:
        """What the rows change in the table's columns. deltalake cannot change a column's type."""
        return evolution(name, json.loads(table.schema().to_json())["fields"], rows, lambda _ours, _theirs: False)

    def _adds(self, folder: str, place: str, columns: Sequence[Column], partitions: Sequence[str]) -> list[AddAction]:
        """Describes the files for the transaction, with the statistics that delta-rs finds in them. For this a log is
        made in their folder, and removed again."""
        files = self._files.files(folder)
        uri = delta_uri(self._files.absolute(folder))
        as_text = _schema(
            [{**column, "type": "string"} for column in columns if column["name"] in partitions]
        )  # the values stay as Spark wrote them
        kept = exact_statistics(columns, partitions)
        convert_to_deltalake(uri, partition_by=as_text, partition_strategy="hive", configuration=kept)
        log = self._files.read_text(f"{folder}/_delta_log/{0:020}.json") or ""
        self._files.delete(f"{folder}/_delta_log")
        found = [action["add"] for line in log.splitlines() if "add" in (action := json.loads(line))]
        stats = {_key(add["path"], add["partitionValues"]): add["stats"] for add in found}
        adds = [_add(place, file, _values(file.path)) for file in files]
        for add, file in zip(adds, files, strict=True):
            add.stats = stats[_key(file.path, add.partition_values)]
        return [add for add in adds if json.loads(add.stats)["numRecords"]]

    def _version(self, table: DeltaTable | None) -> int | None:
        """The number of the pipeline's newest transaction."""
        return None if table is None else table.transaction_version(self.app_id)

    def _place(self, name: str, version: int) -> str:
        return f"{self._output}/{name}/{POSITIONS}/{version}.json"


def _folder(version: int) -> str:
    """The folder of a transaction's files, in the table's."""
    return f"part-{version:015x}"


def _add(place: str, file: ListedFile, values: Mapping[str, str | None]) -> AddAction:
    return AddAction(f"{place}/{file.path}", file.size, values, file.modified, True, "{}")


def _values(path: str) -> dict[str, str | None]:
    """Reads the partition values from a path like `arrivalDate=2026-01-31/country=C%3A/part-0.parquet`."""
    parts = (part.partition("=") for part in path.split("/")[:-1])
    return {name: None if value == NULL_FOLDER else unquote(value) for name, _, value in parts}


def _key(path: str, values: Mapping[str, str | None]) -> tuple[object, ...]:
    """Names a file of a transaction. Not by its path, which delta-rs and Spark escape differently."""
    return path.rpartition("/")[2], *sorted(values.items())


def exact_statistics(columns: Sequence[Column], partitions: Sequence[str]) -> dict[str, str]:
    """The property of a table some of whose columns must have no statistics: by a value that is not exact, readers skip
    files that have the rows they look for. Empty if there are none."""
    if not any(_is_inexact(column["type"]) for column in columns):
        return {}
    kept = [column["name"] for column in columns if column["name"] not in partitions and _is_kept(column)]
    return {STATISTICS_OF: ",".join(map(quoted, kept))}


def keep_statistics_exact(table: DeltaTable) -> None:
    """Sets the property, unless the table has it: call it before `deltalake` itself writes files."""
    columns, metadata = json.loads(table.schema().to_json())["fields"], table.metadata()
    wanted = exact_statistics(columns, metadata.partition_columns)
    if wanted and STATISTICS_OF not in metadata.configuration:
        table.alter.set_table_properties(wanted)


def _is_inexact(kind: Type) -> bool:
    if isinstance(kind, Mapping):
        return kind["type"] == "struct" and any(_is_inexact(part["type"]) for part in kind["fields"])
    found = _DECIMAL.fullmatch(kind)
    return found is not None and int(found[1]) > _EXACT_DIGITS


def _is_kept(column: Column) -> bool:
    """delta-rs can name neither a part of a struct nor a column with a comma."""
    kind = column["type"]
    is_ordered = kind in _ORDERED or (isinstance(kind, str) and kind.startswith("decimal") and not _is_inexact(kind))
    return is_ordered and not set(column["name"]) & {",", "`"}


def delta_uri(path: str) -> str:
    """Returns deltalake's form of a path that Spark writes as file:/..., s3a://... or s3n://...."""
    scheme, colon, rest = path.partition(":")
    if not colon or scheme == "file":
        return "/" + (rest or path).lstrip("/")
    return f"{'s3' if scheme in ('s3a', 's3n') else scheme}:{rest}"


def _schema(columns: Sequence[Column]) -> Schema:
    """The schema for deltalake, with all columns nullable, because to Spark all columns in files are."""
    fields = [{**column, "nullable": True, "metadata": {}} for column in columns]
    return Schema.from_arrow(arrow_schema(StructType.fromJson({"type": "struct", "fields": fields}).toNullable()))
