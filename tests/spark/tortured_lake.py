"""A lake that `sublet pipeline` writes: its tables, and what may happen to its checkpoint between two runs."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import DeltaTable

from tests.spark.tortured_process import Outcome, SparkProcess

POSITION = ("stream", "shardId", "sequenceNumber", "subSequenceNumber")
SCHEMA = "id BIGINT NOT NULL, note STRING"
WITH_MORE = f"{SCHEMA}, more INT"
WRONG = "id STRING NOT NULL, note STRING"
TABLES = ("raw", "parsed", "rejected")


class TorturedLake:
    """options: of the source, in each run. `size`: about how many records a batch has."""

    def __init__(
        self,
        spark: SparkProcess,
        folder: Path,
        sink: str,
        chance: Random,
        stream: str,
        options: dict[str, str],
        size: int,
    ) -> None:
        self.spark, self.folder, self.sink, self.chance = spark, folder, sink, chance
        self.stream, self.options, self.size, self.schema = stream, options, size, SCHEMA
        self.output = f"lake.{folder.name}" if sink == "iceberg" else str(folder / "lake")
        self.checkpoint, self.copy, self.places = folder / "checkpoint", folder / "copy", 0
        folder.mkdir()

    @property
    def is_replaceable(self) -> bool:
        """Whether rows of its tables can be replaced: for `reparse` and `maintain`."""
        return self.sink != "parquet"

    def run(
        self,
        kill: dict[str, Any] | None = None,
        linger: float = 0.0,
        *,
        stream: str | None = None,
        schema: str | None = None,
        checkpoint: Path | None = None,
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> Outcome:
        """What is given holds for this run only. `more`: options of the source."""
        limits = [f"maxRecordsPerTrigger={self.size}", f"maxBytesPerTrigger={self.size * 40}", "maxSpanPerTrigger=1m"]
        limit, tasks = self.chance.choice(limits), self.chance.choice(["1", "2", "5"])
        partitions = self.chance.choice(["arrivalDate", "none", "arrivalDate,shardId"])
        arguments = ["--available-now", "--sink", self.sink, "--output", self.output, "--partition-by", partitions]
        arguments += ["--schema", schema or self.schema, "--stream", stream or self.stream]
        arguments += ["--checkpoint", str(checkpoint or self.checkpoint)]
        named = {**self.options, "maxPartitions": tasks, "patience": "20s", **more}
        for option in [limit, *(f"{name}={value}" for name, value in named.items() if name not in ARGUMENTS)]:
            arguments += ["--option", option]
        for name in sorted(ARGUMENTS & named.keys()):
            arguments += [f"--{name}", named[name]]
        order = {"run": arguments, **(kill or {})}
        return self.spark.order(order, linger)

    def reparse(self) -> None:
        outcome = self._reparsed()
        assert outcome.is_well, outcome.error

    def reparse_at_once(self) -> None:
        """Whatever was cut off, and wherever the checkpoint was set back to."""
        if self._exists("raw"):
            outcome = self._reparsed()
            assert outcome.is_well or "with a committed batch" in (outcome.error or ""), outcome.error

    def _reparsed(self) -> Outcome:
        arguments = ["--output", self.output, "--sink", self.sink, "--checkpoint", str(self.checkpoint)]
        return self.spark.order({"reparse": [*arguments, "--schema", self.schema, "--from", "raw"]})

    def maintain(self) -> None:
        if self._exists("raw"):
            arguments = ["--output", self.output, "--sink", self.sink, "--retention", "3d"]
            outcome = self.spark.order({"maintain": arguments})
            assert outcome.is_well, outcome.error

    def rows(self, table: str) -> Counter[tuple[object, ...]]:
        found = self._columns(table, POSITION)
        if found is None:
            return Counter()
        columns = (found.column(name).to_pylist() for name in POSITION)
        return Counter(zip(*columns, strict=True))

    def data(self) -> Counter[bytes]:
        found = self._columns("raw", ("data",))
        return Counter() if found is None else Counter(found.column("data").to_pylist())

    def assert_never_twice(self) -> None:
        for table in TABLES:
            twice = [row for row, times in self.rows(table).items() if times > 1]
            assert not twice, f"{table} has {len(twice)} rows twice, such as {twice[0]}"

    def unparsed(self) -> int:
        """How many records of `raw` are in neither of the other tables."""
        return sum((self.rows("raw") - self.rows("parsed") - self.rows("rejected")).values())

    def assert_split(self) -> None:
        assert self.rows("raw") == self.rows("parsed") + self.rows("rejected")

    def _exists(self, table: str) -> bool:
        if self.sink == "iceberg":
            return self.rows(table) != Counter()
        place = self.folder / "lake" / table
        return place.exists() and (self.sink != "delta" or DeltaTable.is_deltatable(str(place)))

    def _columns(self, table: str, names: tuple[str, ...]) -> Any:
        if self.sink == "iceberg":
            file = self.folder / "dump.parquet"
            file.unlink(missing_ok=True)
            wanted = {"table": f"{self.output}.{table}", "columns": names, "file": str(file)}
            outcome = self.spark.order({"dump": wanted})
            assert outcome.is_well, outcome.error
            return pq.read_table(file) if file.exists() else None
        if not self._exists(table):
            return None
        place = self.folder / "lake" / table
        if self.sink == "delta":
            return DeltaTable(str(place)).to_pyarrow_table(columns=list(names))
        return ds.dataset(place, partitioning="hive").to_table(list(names))

    def batches(self, log: str) -> list[int]:
        folder = self.checkpoint / log
        return sorted(int(file.name) for file in folder.iterdir() if file.name.isdecimal()) if folder.exists() else []

    def remove(self, log: str, batch: int) -> None:
        (self.checkpoint / log / str(batch)).unlink(missing_ok=True)
        (self.checkpoint / log / f".{batch}.crc").unlink(missing_ok=True)

    def keep_copy(self) -> None:
        if self.checkpoint.exists():
            shutil.rmtree(self.copy, ignore_errors=True)
            shutil.copytree(self.checkpoint, self.copy)

    def put_copy_back(self) -> None:
        if self.copy.exists():
            shutil.rmtree(self.checkpoint, ignore_errors=True)
            shutil.copytree(self.copy, self.checkpoint)

    def move_checkpoint(self) -> None:
        """A copy goes on in its place."""
        if self.checkpoint.exists():
            self.places += 1
            there = self.folder / f"checkpoint-{self.places}"
            shutil.copytree(self.checkpoint, there)
            self.checkpoint = there

    def cut_short(self) -> None:
        """The last batches are removed, to have them read again."""
        for batch in self.batches("offsets")[-self.chance.randint(1, 3) :]:
            for log in ("offsets", "commits"):
                self.remove(log, batch)

    def uncommit(self) -> None:
        """The last commit is removed: its batch comes again."""
        for batch in self.batches("commits")[-1:]:
            if batch == self.batches("offsets")[-1]:
                self.remove("commits", batch)

    def empty_checkpoint(self) -> None:
        """All batches are removed, to have everything read again."""
        for log in ("offsets", "commits"):
            shutil.rmtree(self.checkpoint / log, ignore_errors=True)

    def forge_commit(self) -> int | None:
        """The batch that was cut off is said to be committed, which skips it. Its number; None if there is none."""
        offsets, commits = self.batches("offsets"), self.batches("commits")
        if not commits or offsets[-1] <= commits[-1]:
            return None
        shutil.copy(self.checkpoint / "commits" / str(commits[-1]), self.checkpoint / "commits" / str(offsets[-1]))
        return offsets[-1]

    def take_back_commit(self, batch: int) -> None:
        """And what Spark has planned after it."""
        self.remove("commits", batch)
        for later in self.batches("offsets"):
            if later > batch:
                self.remove("offsets", later)


ARGUMENTS = {"application", "leases"}
"""Options of the source that are arguments of the command."""
