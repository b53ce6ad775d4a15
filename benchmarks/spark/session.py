"""A quiet local Spark of one core, and the CPU time of its processes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

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
    """Of this session's processes: the JVM, Spark's Python workers, and this program. As Linux tells it."""
    own, ticks = os.getsid(0), 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                ticks += sum(map(int, fields[11:15])) if int(fields[3]) == own else 0
    return ticks / os.sysconf("SC_CLK_TCK")
