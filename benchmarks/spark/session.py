"""A quiet local Spark, and the CPU time of its processes."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread, get_ident

from pyspark.sql import SparkSession


def session(cores: int = 1, memory: str = "1g", *, keeps_workers: bool = True) -> SparkSession:
    """`keeps_workers`: from task to task, as Spark does; otherwise each task has a Python worker of its own."""
    spark = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", memory)
        .config("spark.python.worker.reuse", str(keeps_workers).lower())
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def cpu_seconds() -> float:
    """CPU seconds of this session's processes so far, including those that have ended: the JVM, Spark's Python
    workers, and this program, without the cost of measuring. From Linux' figures. A worker that ends is not always
    waited for by its parent, which would then have its time. So all are measured a few times a second, and the last
    value of each is kept."""
    if not _taken:
        Thread(target=_watch, daemon=True).start()
    _look()
    return sum(list(_taken.values())) / os.sysconf("SC_CLK_TCK") - sum(list(_looks.values()))


_taken: dict[tuple[str, str], int] = {}
"""Ticks, by process: its number and when it began."""

_looks: dict[int, float] = {}
"""CPU seconds of the measuring itself, by thread; otherwise a longer run by the clock would seem to have used more."""


def _watch() -> None:
    while True:
        time.sleep(0.2)
        _look()


def _look() -> None:
    since, own = time.thread_time(), os.getsid(0)
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == own:
                    _taken[entry.name, fields[19]] = int(fields[11]) + int(fields[12])
    _looks[get_ident()] = _looks.get(get_ident(), 0.0) + time.thread_time() - since
