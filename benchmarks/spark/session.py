"""A quiet local Spark of one core, and the CPU time of its processes."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread

from pyspark.sql import SparkSession


def session() -> SparkSession:
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def cpu_seconds() -> float:
    """Of this session's processes until now, those that have ended too: the JVM, Spark's Python workers, and this program. As
    Linux tells it. A worker that ends is not always waited for by its parent, who would have its time: so all are looked at
    a few times a second, and what each had last stays.
    """
    if not _taken:
        Thread(target=_watch, daemon=True).start()
    _look()
    return sum(list(_taken.values())) / os.sysconf("SC_CLK_TCK")


_taken: dict[tuple[str, str], int] = {}
"""Ticks, by process: its number and when it began."""


def _watch() -> None:
    while True:
        time.sleep(0.2)
        _look()


def _look() -> None:
    own = os.getsid(0)
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == own:
                    _taken[entry.name, fields[19]] = int(fields[11]) + int(fields[12])
