"""`sublet pipeline` in a process that is killed at a drawn moment: `python tortured_program.py STEP VICTIM ARGUMENTS`

STEP: the step of the sink at which it happens, or -1: never. A step is a text that is half written, a file that is
moved or deleted, rows that are being written. VICTIM: `all`, `jvm`, or `workers`, Spark's Python processes.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread

from pyspark.sql import DataFrame
from sublet.spark.pipeline.command import add_arguments, settings_of
from sublet.spark.pipeline.file_system import SparkFiles
from sublet.spark.pipeline.layout import write_files
from sublet.spark.pipeline.running import run_pipeline
from sublet.spark.pipeline.session import session
from sublet.spark.pipeline.tables import open_tables
from sublet.spark.pipeline.tally import PlainLines, RunTally
from sublet.system.clock import SystemClock

from tests.spark.processes import kill_session, python_workers, session_members

KILLED = "killed"
JVM = b"org.apache.spark.deploy.SparkSubmit"


class Killer:
    """Counts the steps, and kills the victim at one of them."""

    def __init__(self, step: int, victim: str) -> None:
        self.left, self.victim = step, victim

    def is_time(self) -> bool:
        self.left -= 1
        return self.left == -1

    def step(self) -> None:
        if self.is_time():
            self.kill()

    def kill(self) -> None:
        print(KILLED, flush=True)
        if self.victim == "all":
            kill_session(os.getsid(0))
        elif self.victim == "jvm":
            for pid in session_members(os.getsid(0)):
                with suppress(OSError):
                    if JVM in Path(f"/proc/{pid}/cmdline").read_bytes():
                        os.kill(pid, signal.SIGKILL)
        else:
            for pid in python_workers(os.getsid(0)):
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)

    def kill_meanwhile(self) -> Thread:
        thread = Thread(target=self._kill_soon, daemon=True)
        thread.start()
        return thread

    def _kill_soon(self) -> None:
        time.sleep(0.05)
        self.kill()


class MortalFiles:
    """Makes steps of what SparkFiles does."""

    def __init__(self, killer: Killer) -> None:
        self.killer = killer
        self.write_text, self.move, self.delete = SparkFiles.write_text, SparkFiles.move, SparkFiles.delete

    def install(self) -> None:
        ours = self

        def write_text(files: SparkFiles, path: str, text: str) -> None:
            ours.killer.step()
            if ours.killer.is_time():
                ours.write_text(files, path, text[: len(text) // 2])
                ours.killer.kill()
            ours.write_text(files, path, text)

        def move(files: SparkFiles, source: str, target: str) -> None:
            ours.killer.step()
            ours.move(files, source, target)

        def delete(files: SparkFiles, path: str) -> None:
            ours.killer.step()
            ours.delete(files, path)

        SparkFiles.write_text, SparkFiles.move, SparkFiles.delete = write_text, move, delete  # type: ignore[assignment, method-assign]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("step", type=int)
    parser.add_argument("victim")
    add_arguments(parser)
    arguments = parser.parse_args()
    settings, killer = settings_of(arguments), Killer(arguments.step, arguments.victim)

    def write(frame: DataFrame, folder: str, partitions: Sequence[str]) -> None:
        if killer.is_time():
            killer.kill_meanwhile()
        write_files(frame, folder, partitions)
        killer.step()

    MortalFiles(killer).install()
    spark = session(settings, quiet=True)
    tables = open_tables(spark, settings, write)
    run_pipeline(spark, settings, RunTally(), PlainLines(print), SystemClock(), lambda: False, tables)
    spark.stop()


if __name__ == "__main__":
    main()
