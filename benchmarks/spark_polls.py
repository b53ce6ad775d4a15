"""Spark: whole streams polled and read, from the replay server into a sink that drops rows and into Parquet, plain
and in KPL aggregates, of 100 B and 1 KB.

By CPU time of all processes, the JVM and the Python workers. Compared with a source that a user would write with
boto3, aws-kinesis-agg and tuples, and with `sublet run`, a separate process, including its imports and start.

Spark keeps its Python workers from read to read, as these reads do after a warm-up. The fixed cost of a read is
measured with a stream without records: with kept workers, and with new ones, as in a session's first read.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from statistics import median
from typing import Any, NamedTuple

import benchmarks
from benchmarks import peers
from benchmarks.replay_server import USER_RECORDS
from benchmarks.runs import SUBLET as PROCESS
from benchmarks.runs import Bench, bench

PYTHON = peers.ROOT / ".local/spark/bin/python"
MISSING = "not measured: it needs Java 17 or newer, and `make bench BENCH=spark_polls` installs PySpark in .local/spark"
SUBLET, AGG = "sublet", "aws-kinesis-agg + tuples"
GOAL_AGAINST_PEER = 2.5
GOAL_AGAINST_PROCESS = {"aggregated": 0.4, "plain": 0.6}
"""Relative to its records per CPU second."""
PROCESS_ROUNDS = benchmarks.rounds(3)


class Found(NamedTuple):
    """CPU seconds: `spark` by stream, sink and way, `process` by stream; by way those of an empty read, with kept
    workers and with new ones."""

    spark: dict[str, dict[str, dict[str, float]]]
    process: dict[str, float]
    kept: dict[str, float]
    new: dict[str, float]


def measure() -> Found | None:
    """Returns None without Spark."""
    if not is_there():
        return None
    with bench() as servers:
        process = processes(servers)
        spark = on_spark(servers, "benchmarks.polls_on_spark")
    return Found(spark["reads"], process, spark["kept"], spark["new"])


def processes(servers: Bench) -> dict[str, float]:
    """CPU seconds of `sublet run`, by stream: medians of runs in turns."""
    taken: dict[str, list[float]] = {}
    for _ in range(PROCESS_ROUNDS):
        for stream, records in USER_RECORDS.items():
            if (run := servers.run(PROCESS, stream, records)) is not None:
                taken.setdefault(stream, []).append(run.cpu_seconds)
    return {stream: median(seconds) for stream, seconds in taken.items()}


def is_there() -> bool:
    if not PYTHON.exists():
        return False
    try:
        return subprocess.run(["java", "-version"], capture_output=True, check=False).returncode == 0  # noqa: S607
    except FileNotFoundError:
        return False


def on_spark(servers: Bench, module: str, *arguments: str) -> Any:
    """What the module finds, in Spark's environment.

    It runs in a session of its own, so that the CPU time of all its processes can be measured, the JVM and Spark's
    Python workers. They write bytecode even if the machine forbids it, as installed packages have; otherwise each
    worker would compile sublet at its start.
    """
    run = subprocess.run(
        [str(PYTHON), "-m", module, *arguments],
        check=False,
        capture_output=True,
        text=True,
        start_new_session=True,
        env={
            **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
            **servers.environment,
            "PYSPARK_PYTHON": str(PYTHON),
        },
    )
    if run.returncode != 0:
        raise ChildProcessError(f"{module} failed:\n{run.stderr[-5000:]}")
    return json.loads(run.stdout.splitlines()[-1])


def report(found: Found | None) -> bool:
    """Print the table; True if the goals are met that can be judged."""
    print("Spark: records a CPU second, polled and read (thousands)")
    if found is None:
        print(f"  {MISSING}")
        return True
    for stream, sinks in found.spark.items():
        records = USER_RECORDS[stream]
        cells = [
            f"{way} into {sink} {records / cpu / 1e3:,.0f}" for sink, ways in sinks.items() for way, cpu in ways.items()
        ]
        process = [f"sublet run {records / found.process[stream] / 1e3:,.0f}"] if stream in found.process else []
        print(f"  {stream:<18}" + "; ".join([*cells, *process]))
    for way, kept in found.kept.items():
        print(f"  a read of nothing, CPU s: {way} {kept:.2f}; with new Python workers {found.new[way]:.2f}")
    verdicts = list(_verdicts(found))
    for text, met in verdicts:
        print(f"  {text}: {'met' if met else 'MISSED'}")
    if not any(AGG in ways for sinks in found.spark.values() for ways in sinks.values()):
        print(f"  {peers.MISSING}")
    return all(met for _, met in verdicts)


def _verdicts(found: Found) -> Iterator[tuple[str, bool]]:
    for stream, sinks in found.spark.items():
        for sink, ways in sinks.items():
            if AGG in ways:
                ratio = ways[AGG] / ways[SUBLET]
                yield (
                    f"{stream} into {sink}: {ratio:.2f}x {AGG}, goal {GOAL_AGAINST_PEER:g}",
                    ratio >= GOAL_AGAINST_PEER,
                )
        if stream in found.process:
            goal = GOAL_AGAINST_PROCESS[stream.partition("-")[0]]
            ratio = found.process[stream] / sinks["noop"][SUBLET]
            yield f"{stream} into noop: {ratio:.2f} of sublet run, goal {goal:g}", ratio >= goal
