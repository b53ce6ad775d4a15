"""The contents of the pipeline's tables. A program for Spark's own environment, since the demo's has no PyArrow:

    python -m demo.spark.lake FOLDER

It answers each line on standard input with a line of JSON, until the input ends.

rows      rows of `raw` by shard id: {"shardId-000000000000": 12}
flights   {"raw": 12, "rejected": 0, "keys": {"N1": [[1, 4], [9, 9]]}, "carriers": {"UA": [5 figures]}}
          keys: runs of running numbers, in the order of Spark's batches
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

FIGURES = ("flights", "departed", "departure_delay", "arrived", "arrival_delay")


class Lake:
    """The tables as any reader of Parquet sees them, without sublet or Spark."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._counted: dict[Path, Counter[str]] = {}

    def rows(self) -> dict[str, int]:
        """Counts rows by shard, each file once: a file never changes after it has its name."""
        for file in self._folder.glob("raw/arrivalDate=*/*.parquet"):
            if file not in self._counted:
                shards = pq.read_table(file, columns=["shardId"], partitioning=None)["shardId"]
                self._counted[file] = Counter(shards.to_pylist())
        return dict(sum(self._counted.values(), Counter()))

    def flights(self) -> dict[str, Any]:
        parsed = self._table("parsed", ["key", "batch", "number"])
        rejected = self._table("rejected", ["reason"])
        columns = parsed.sort_by([("key", "ascending"), ("batch", "ascending"), ("number", "ascending")])
        return {
            "raw": self._table("raw", ["batch"]).num_rows,
            "rejected": rejected.num_rows,
            "keys": runs(zip(columns["key"].to_pylist(), columns["number"].to_pylist(), strict=True)),
            "carriers": self._carriers(),
        }

    def _carriers(self) -> dict[str, list[int]]:
        """The pipeline's own table of figures, over all its batches."""
        table = self._table("carriers", ["carrier", *FIGURES])
        sums = table.group_by("carrier").aggregate([(name, "sum") for name in FIGURES])
        return {row["carrier"]: [row[f"{name}_sum"] for name in FIGURES] for row in sums.to_pylist()}

    def _table(self, name: str, columns: list[str]) -> pa.Table:
        folder = self._folder / name
        if not folder.is_dir():  # nothing has been written to it
            return pa.table({column: pa.array([], pa.int64()) for column in columns})
        return ds.dataset(folder, format="parquet", partitioning="hive").to_table(columns)


def runs(numbers: Iterable[tuple[str, int]]) -> dict[str, list[list[int]]]:
    """Returns the first and last number of each run of consecutive numbers, by key, in the order given."""
    found: dict[str, list[list[int]]] = {}
    for key, number in numbers:
        of_key = found.setdefault(key, [])
        if of_key and number == of_key[-1][1] + 1:
            of_key[-1][1] = number
        else:
            of_key.append([number, number])
    return found


def main() -> None:
    lake = Lake(Path(sys.argv[1]))
    for line in sys.stdin:
        answer = lake.flights() if line.strip() == "flights" else lake.rows()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
