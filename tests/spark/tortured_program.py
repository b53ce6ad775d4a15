"""`sublet pipeline` in a process that is killed at a drawn moment: `python tortured_program.py --conf NAME=VALUE ...`

Each line of standard input is a JSON object, and each is done in the same session:

    {"run": [ARGUMENTS], "kills": [[7, "workers", 0.2], [12, "all", 0]]}
    {"reparse": [ARGUMENTS]}, {"maintain": [ARGUMENTS]}
    {"dump": {"table": "raw", "columns": ["data"], "file": "..."}}

`kills`: the step of the sink at which something is killed, what, and how many seconds later. A step is a text that is
half written, a file that is moved or deleted, rows that are being written, a snapshot that is staged or published.
What: `all`, `jvm`, `workers`, which are Spark's Python processes of tasks, or `source`, its process on the driver. Each
line is answered by one, `["ended", error]`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from sublet.errors import SubletError
from sublet.spark.pipeline import command, maintain_command, reparse_command
from sublet.spark.pipeline.file_system import SparkFiles
from sublet.spark.pipeline.iceberg_tables import IcebergTables
from sublet.spark.pipeline.lake import open_lake
from sublet.spark.pipeline.layout import write_files
from sublet.spark.pipeline.maintaining import maintain
from sublet.spark.pipeline.reparsing import reparse
from sublet.spark.pipeline.running import run_pipeline
from sublet.spark.pipeline.session import cause_of, session_of
from sublet.spark.pipeline.settings import pairs
from sublet.spark.pipeline.tables import open_tables
from sublet.spark.pipeline.tally import PlainLines, RunTally
from sublet.system.clock import SystemClock

from tests.spark.processes import kill_session, python_workers, session_members

KILLED = "killed"
ENDED = "ended"
COMMANDS = {"jvm": b"org.apache.spark.deploy.SparkSubmit", "source": b"python_streaming_source_runner"}


class Killer:
    """Counts the steps, and kills at some of them. `kills`: by step, what, and how many seconds later."""

    def __init__(self) -> None:
        self.at, self.kills = 0, dict[int, tuple[str, float]]()

    def arm(self, kills: Sequence[tuple[int, str, float]]) -> None:
        self.at, self.kills = 0, {step: (victim, delay) for step, victim, delay in kills}

    def step(self, what: str) -> None:
        self.at += 1
        victim, delay = self.kills.get(self.at, (None, 0.0))
        if victim is not None and delay:
            Thread(target=self._kill_soon, args=(victim, delay, what), daemon=True).start()
        elif victim is not None:
            kill(victim, what)

    def half_step(self, what: str, act: Callable[[], object]) -> None:
        """Acts if something is to be killed in it at once."""
        self.at += 1
        victim, _ = self.kills.get(self.at, (None, 0.0))
        if victim is not None:
            act()
            kill(victim, what)

    def _kill_soon(self, victim: str, delay: float, what: str) -> None:
        """Not if the run has ended meanwhile."""
        kills = self.kills
        time.sleep(delay)
        if self.kills is kills:
            kill(victim, f"{delay:.2f} s after {what}")


def kill(victim: str, what: str) -> None:
    """Says so if there was something to kill: Spark's Python processes come and go with its tasks."""
    session = os.getsid(0)
    if victim == "all":
        say(json.dumps([KILLED, victim, what]))
        kill_session(session)
    found = python_workers(session) if victim == "workers" else list(processes(session, COMMANDS[victim]))
    if found:
        say(json.dumps([KILLED, victim, what]))
    for pid in found:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def processes(session: int, command: bytes) -> Iterator[int]:
    for pid in session_members(session):
        with suppress(OSError):
            if command in Path(f"/proc/{pid}/cmdline").read_bytes():
                yield pid


def make_steps_of_files(killer: Killer) -> None:
    """Makes steps of what SparkFiles does."""
    whole, moved, deleted = SparkFiles.write_text, SparkFiles.move, SparkFiles.delete

    def write_text(files: SparkFiles, path: str, text: str) -> None:
        killer.step("before a text")
        killer.half_step("half of a text", lambda: whole(files, path, text[: len(text) // 2]))
        whole(files, path, text)

    def move(files: SparkFiles, source: str, target: str) -> None:
        killer.step("before a file is moved")
        moved(files, source, target)

    def delete(files: SparkFiles, path: str) -> None:
        killer.step("before a file is deleted")
        deleted(files, path)

    SparkFiles.write_text, SparkFiles.move, SparkFiles.delete = write_text, move, delete  # type: ignore[assignment, method-assign]


def make_steps_of_iceberg(killer: Killer) -> None:
    """Makes steps of what IcebergTables does."""
    staged, published = IcebergTables._stage, IcebergTables._publish

    def stage(tables: IcebergTables, name: str, *given: Any) -> None:
        killer.step(f"{name} begins to be staged")
        staged(tables, name, *given)
        killer.step(f"{name} is staged")

    def publish(tables: IcebergTables, name: str, *given: Any) -> None:
        published(tables, name, *given)
        killer.step(f"{name} is published")

    IcebergTables._stage, IcebergTables._publish = stage, publish  # type: ignore[assignment, method-assign]


class Program:
    def __init__(self, spark: SparkSession, killer: Killer) -> None:
        self.spark, self.killer = spark, killer

    def write(self, frame: DataFrame, folder: str, partitions: Sequence[str]) -> None:
        self.killer.step("rows begin to be written")
        write_files(frame, folder, partitions)
        self.killer.step("rows are written")

    def run(self, arguments: list[str], kills: Sequence[tuple[int, str, float]] = ()) -> None:
        settings = command.settings_of(parsed(command.add_arguments, arguments))
        self.killer.arm(kills)
        try:
            tables = open_tables(self.spark, settings, self.write, say)
            run_pipeline(self.spark, settings, RunTally(), PlainLines(say), SystemClock(), lambda: False, tables)
        finally:
            self.killer.arm(())

    def reparse(self, arguments: list[str]) -> None:
        reparse(self.spark, reparse_command.settings_of(parsed(reparse_command.add_arguments, arguments)), say)

    def maintain(self, arguments: list[str]) -> None:
        given = maintain_command.settings_of(parsed(maintain_command.add_arguments, arguments))
        maintain(open_lake(self.spark, given.output, given.sink), given, SystemClock(), say)

    def dump(self, given: dict[str, Any]) -> None:
        """Writes columns of a table into a Parquet file; nothing if there is no such table."""
        if self.spark.catalog.tableExists(given["table"]):
            pq.write_table(self.spark.table(given["table"]).select(*given["columns"]).toArrow(), given["file"])

    def obey(self, line: str) -> None:
        order = json.loads(line)
        [what] = order.keys() & {"run", "reparse", "maintain", "dump"}
        work: Callable[..., None] = getattr(self, what)
        try:
            work(order.pop(what), **order)
        except SubletError as refusal:
            say(json.dumps([ENDED, f"{type(refusal).__name__}: {refusal}"]))
        except Exception as failure:  # noqa: BLE001 - whatever the kill brought about
            say(json.dumps([ENDED, cause_of(failure)]))
        else:
            say(json.dumps([ENDED, None]))


def say(text: object) -> None:
    """A line at once: what kills does so in threads of its own."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def parsed(add_arguments: Callable[[argparse.ArgumentParser], object], arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(arguments)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--conf", action="append", default=[])
    configuration = pairs("conf", parser.parse_args().conf)
    killer = Killer()
    make_steps_of_files(killer)
    make_steps_of_iceberg(killer)
    program = Program(session_of(configuration, "tortured", quiet=True), killer)
    for line in sys.stdin:
        program.obey(line)
    program.spark.stop()


if __name__ == "__main__":
    main()
