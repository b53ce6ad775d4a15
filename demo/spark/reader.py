"""Queries the program that reads the tables: see `demo.spark.lake`."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.local.embedded import ROOT

SPARK_PYTHON = ROOT / ".local" / "spark" / "bin" / "python"


@dataclass(frozen=True, slots=True)
class SparkStored:
    """What Spark has stored.

    raw, rejected   rows of these tables
    keys            by partition key, runs of its running numbers (first, last), in the order of the batches
    carriers        the five figures of demo.flights.Figures
    """

    raw: int
    rejected: int
    keys: Mapping[str, list[list[int]]]
    carriers: Mapping[str, list[int]]


class LakeReader:
    """One query at a time; thread-safe."""

    def __init__(self, lake: Path) -> None:
        self._process = subprocess.Popen(
            [str(SPARK_PYTHON), "-m", "demo.spark.lake", str(lake)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C in the terminal is handled by the demo
        )
        self._lock = threading.Lock()

    def rows(self) -> Mapping[str, int]:
        """Rows of `raw`, by shard id."""
        return {shard_id: int(count) for shard_id, count in self._ask("rows").items()}

    def flights(self) -> SparkStored:
        return SparkStored(**self._ask("flights"))

    def close(self) -> None:
        with self._lock:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()

    def _ask(self, question: str) -> dict[str, Any]:
        with self._lock:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(f"{question}\n")
            self._process.stdin.flush()
            answer: dict[str, Any] = json.loads(self._process.stdout.readline() or "{}")
            return answer
