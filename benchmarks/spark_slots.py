"""Spark: a backlog of many shards, each at Kinesis' pace, read by few task slots; and what planning many shards takes.

A read of the backlog is compared, in turns and by CPU time, with Spark's read of the same rows from local Parquet and a
bare loop that decodes the same replies; and with what no source in Python can save: to receive the replies, to decode
them, and to pass rows that are already made into Spark. The backlog is 0.5 GB, a tenth of a real one; `BACKLOG=5` makes
it 5 GB.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from benchmarks import paced_server
from benchmarks.runs import bench
from benchmarks.spark_polls import MISSING, is_there, on_spark

SHARDS = 64
SLOTS = 4
GB = float(os.environ.get("BACKLOG", "0.5"))
RECORDS = round(GB * 2**30 / SHARDS / paced_server.RECORD_BYTES)
GOAL_AGAINST_PARQUET = 1.2
GOAL_BUSY = 0.8
GOAL_OF_SHARDS = 0.8
GOAL_PLAN_SECONDS = 2.0
GOAL_BATCH_SECONDS = 0.3


class Found(NamedTuple):
    """Each read: seconds, CPU seconds, and the part of the slots' cores that was used.

    carried  rows that are made once, from Python into Spark
    receiving, decoding  CPU seconds of bare loops
    alone    with a task for each shard
    plans    by stream: seconds, CPU seconds and bytes of each micro-batch's plan
    batches  CPU seconds of a micro-batch
    """

    read: tuple[float, float, float]
    parquet: tuple[float, float, float]
    carried: tuple[float, float, float]
    receiving: float
    decoding: float
    alone: tuple[float, float, float]
    plans: dict[str, list[tuple[float, float, int]]]
    batches: dict[str, float]


def measure() -> Found | None:
    """Returns None without Spark."""
    if not is_there():
        return None
    with bench(paced_server.__name__) as servers:
        stream = f"{paced_server.BACKLOG}-{SHARDS}-{RECORDS}"
        told: dict[str, Any] = on_spark(servers, "benchmarks.slots_on_spark", stream, str(SLOTS))
        return Found(**told)


def report(found: Found | None) -> bool:
    """Print the table; True if the goals are met."""
    print(f"Spark: a backlog of {GB:g} GB over {SHARDS} shards of 2 MB a second, read by {SLOTS} slots")
    if found is None:
        print(f"  {MISSING}")
        return True
    seconds, cpu, busy = found.read
    print(f"  {seconds:.0f} s, {cpu:.1f} CPU s, {_given(found) * 2 * SHARDS:.0f} MB/s, slots busy {busy:.0%}")
    least = found.receiving + found.decoding + found.carried[1]
    print(
        f"  CPU s to read it from Parquet {found.parquet[1]:.1f}; to receive the replies {found.receiving:.1f}; "
        f"to decode them {found.decoding:.1f}; to pass rows that are already made into Spark {found.carried[1]:.1f}"
    )
    print(f"  {cpu / least:.2f}x those last three, which no source in Python can save")
    print(f"  a task for each shard: {8 * 4 / found.alone[0] / SLOTS:.1f} MB/s a slot, busy {found.alone[2]:.0%}")
    for stream, plans in found.plans.items():
        told = "; ".join(f"{wall:.2f} s, {cpu:.2f} CPU s" for wall, cpu, _ in plans)
        print(f"  plans of {stream}: {told}; tasks of {plans[-1][2] / 1024:.0f} KB")
    for what, cpu in found.batches.items():
        print(f"  a micro-batch, {what}: {cpu:.2f} CPU s")
    verdicts = list(_verdicts(found))
    for text, met in verdicts:
        print(f"  {text}: {'met' if met else 'MISSED'}")
    return all(met for _, met in verdicts)


def _given(found: Found) -> float:
    """The part of what the shards give that was read."""
    return GB * 1024 / found.read[0] / (2 * SHARDS)


def _verdicts(found: Found) -> Iterator[tuple[str, bool]]:
    busy, given = found.read[2], _given(found)
    yield (
        f"slots busy {busy:.0%}, or {given:.0%} of what the shards give, goal 80%",
        busy >= GOAL_BUSY or given >= GOAL_OF_SHARDS,
    )
    ratio = found.read[1] / (found.parquet[1] + found.decoding)
    yield (
        f"CPU {ratio:.2f}x Parquet and decoding, goal {GOAL_AGAINST_PARQUET:g}",
        ratio <= GOAL_AGAINST_PARQUET,
    )
    for stream, plans in found.plans.items():
        if "-1000-" in stream:
            slowest = max(wall for wall, _, _ in plans[1:])
            yield f"a plan of {stream}: {slowest:.2f} s, goal {GOAL_PLAN_SECONDS:g}", slowest <= GOAL_PLAN_SECONDS
    more = found.batches[f"busy {SHARDS}/{SLOTS}"] - found.batches["empty 1"]
    text = f"{more:.2f} CPU s beyond an empty source of one partition, goal {GOAL_BATCH_SECONDS:g}"
    yield f"a micro-batch of {SHARDS} shards: {text}", more <= GOAL_BATCH_SECONDS
