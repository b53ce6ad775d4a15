"""`python -m benchmarks.spark.batches`, in Spark's environment: a micro-batch's cost, and plans over many shards.
Prints JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import timedelta
from statistics import median
from typing import Any

from pyspark.sql import SparkSession
from sublet.spark.option_table import parse_options
from sublet.spark.options import Use
from sublet.spark.plan.offsets import Offset
from sublet.spark.read.pace import CallPace
from sublet.spark.source.driver import QueryDriver
from sublet.spark.source.whole_streams import WholeStreams
from sublet.testing.memory import MemoryStream

from benchmarks.spark.batch_sources import EmptySource, TrickleSource
from benchmarks.spark.memory import STREAM, Identified, LeapingClock, connection, of_one
from benchmarks.spark.session import session

ROUNDS = 4
BATCHES = 25
WARM_UP = 5
"""How many of each query's batches come before the measurement."""

SHARDS = 200
LATENCY = timedelta(milliseconds=20)


def batch_millis(spark: SparkSession) -> dict[str, float]:
    """Medians of the batch times that Spark reports; queries of the two sources take turns."""
    millis: dict[str, list[float]] = {source.name(): [] for source in (EmptySource, TrickleSource)}
    for number in range(ROUNDS + 1):
        for name, found in millis.items():
            taken = _query(spark, name)
            if number:  # the first round is for the JVM
                found.extend(taken)
    return {name: median(found) for name, found in millis.items()}


def _query(spark: SparkSession, source: str) -> list[float]:
    query = spark.readStream.format(source).load().writeStream.format("noop").start()
    try:
        while len(query.recentProgress) < BATCHES and query.isActive:
            time.sleep(0.1)
        if (problem := query.exception()) is not None:
            raise problem
        progress: list[Any] = query.recentProgress[WARM_UP:BATCHES]
    finally:
        query.stop()
    return [each["durationMs"]["triggerExecution"] for each in progress]


def plans() -> dict[str, dict[str, Any]]:
    """`latestOffset` over many shards, with calls as slow as Kinesis': calls by name, and seconds."""
    clock = LeapingClock()
    inner = MemoryStream(SHARDS, clock=clock, name=STREAM)
    stream = Identified(inner, LATENCY)
    options = parse_options({"stream": STREAM}, Use.STREAM)
    way = connection(stream, clock, CallPace.of_driver(clock, clock.sleep))
    driver = QueryDriver(of_one(way), options, WholeStreams(None))
    found: dict[str, dict[str, Any]] = {}

    def timed(name: str, start: Offset) -> Offset:
        stream.calls.clear()
        began = time.perf_counter()
        end = driver.latest_offset(start)
        found[name] = {"seconds": time.perf_counter() - began, "calls": dict(stream.calls)}
        return end

    def pass_(seconds: float) -> None:
        clock.sleep(timedelta(seconds=seconds))

    put = _producer(inner)
    put()
    pass_(20)
    offset = timed("first, with records in every shard", driver.initial_offset())
    pass_(20)
    offset = timed("then, with nothing new", offset)
    pass_(2)
    offset = timed("and again with nothing new", offset)
    put()
    pass_(0.5)
    timed("then, with new records in every shard", offset)
    return found


def _producer(stream: MemoryStream) -> Callable[[], None]:
    def put() -> None:
        for shard in stream.list_shards():
            for number in range(10):
                stream.put("k", b"%d" % number, shard.hash_key_range.starting)

    return put


if __name__ == "__main__":
    spark = session()
    for source in (EmptySource, TrickleSource):
        spark.dataSource.register(source)
    millis = batch_millis(spark)
    spark.stop()
    print(json.dumps({"millis": millis, "plans": plans()}))
