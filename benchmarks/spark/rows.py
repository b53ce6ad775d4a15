"""`python -m benchmarks.spark.rows`, in Spark's environment: rows through `read()`, in every way, in turns. Prints
JSON."""

from __future__ import annotations

import json
import time
from statistics import median
from typing import NamedTuple

from pyspark.sql import SparkSession

from benchmarks.peers import PYTHON as PEERS
from benchmarks.spark.names import AGG, CEILING, NOTHING, PROVEN, SUBLET, SUBLET_UNFILTERED, TUPLES
from benchmarks.spark.rows_sources import RowsSource
from benchmarks.spark.session import cpu_seconds, session

WARM_UP = 2
ROUNDS = 11
RECORDS = {100: 1_000_000, 1024: 200_000}
"""Rows of a run, by bytes of data: about a second of CPU."""
SLOW = {TUPLES: 4, AGG: 4}
"""These read a fraction of the rows."""


class Seconds(NamedTuple):
    cpu: float
    clock: float


def run(spark: SparkSession, variant: str, size: int, records: int) -> Seconds:
    rows = spark.read.format("benchmark_rows").options(variant=variant, size=size, records=records).load()
    cpu, start = cpu_seconds(), time.perf_counter()
    rows.write.format("noop").mode("overwrite").save()
    return Seconds(cpu_seconds() - cpu, time.perf_counter() - start)


def check(spark: SparkSession, variant: str, size: int, records: int) -> None:
    """Checks that it reads the same as the others."""
    options = {"variant": variant, "size": str(size), "records": str(records)}
    found = spark.read.format("benchmark_rows").options(**options).load().selectExpr("sum(length(data))").head()
    if variant != NOTHING and not records * size <= found[0] <= records * size + 60_000:
        raise ValueError(f"{variant} read {found[0]} bytes instead of {records} of {size}")


def rates(spark: SparkSession, size: int) -> dict[str, Seconds]:
    """Rows per second of CPU and of wall time, without the cost of an empty run; medians of interleaved rounds."""
    agg = [AGG] if PEERS.exists() else []
    variants = [NOTHING, CEILING, PROVEN, SUBLET, SUBLET_UNFILTERED, TUPLES, *agg]
    records = {variant: RECORDS[size] // SLOW.get(variant, 1) for variant in variants}
    taken: dict[str, list[Seconds]] = {variant: [] for variant in variants}
    for variant in variants:
        check(spark, variant, size, records[variant])
    for number in range(WARM_UP + ROUNDS):
        for variant in variants:
            seconds = run(spark, variant, size, records[variant])
            taken[variant] += [seconds] if number >= WARM_UP else []
    medians = {v: Seconds(*map(median, zip(*found, strict=True))) for v, found in taken.items()}
    none = medians.pop(NOTHING)
    return {
        variant: Seconds(records[variant] / (found.cpu - none.cpu), records[variant] / (found.clock - none.clock))
        for variant, found in medians.items()
    }


if __name__ == "__main__":
    spark = session()
    spark.dataSource.register(RowsSource)
    found = {str(size): rates(spark, size) for size in RECORDS}
    spark.stop()
    print(json.dumps(found))
