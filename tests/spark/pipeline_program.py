"""`sublet pipeline` in a process that dies by SIGKILL, with everything that it started: `python pipeline_program.py
MOMENT ARGUMENTS`

MOMENT: it dies after this many tables of a batch. 4 of 4: all of them, but Spark has not noted the batch. -1: never.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from pyspark.sql import DataFrame
from sublet.spark.pipeline.command import add_arguments, settings_of
from sublet.spark.pipeline.layout import write_files
from sublet.spark.pipeline.running import run_pipeline
from sublet.spark.pipeline.session import session
from sublet.spark.pipeline.tables import open_tables
from sublet.spark.pipeline.tally import RunTally
from sublet.system.clock import SystemClock

from tests.spark.processes import kill_session


class DiesAt:
    """Writes files, is the run's display, and counts the tables of the current batch."""

    def __init__(self, moment: int) -> None:
        self.moment, self.written = moment, 0

    def __call__(self, frame: DataFrame, folder: str, partitions: Sequence[str]) -> None:
        self._die_if_it_is_time()
        write_files(frame, folder, partitions)
        self.written += 1

    def batch_done(self, _tally: RunTally) -> None:
        self._die_if_it_is_time()
        self.written = 0

    def lag_known(self, _tally: RunTally) -> None:
        pass

    def close(self) -> None:
        pass

    def _die_if_it_is_time(self) -> None:
        if self.written == self.moment:
            kill_session(os.getsid(0))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("moment", type=int)
    add_arguments(parser)
    arguments = parser.parse_args()
    settings, dies = settings_of(arguments), DiesAt(arguments.moment)
    spark = session(settings, quiet=True)
    tables = open_tables(spark, settings, dies)
    run_pipeline(spark, settings, RunTally(), dies, SystemClock(), lambda: False, tables)
    spark.stop()


if __name__ == "__main__":
    main()
