"""`sublet pipeline --sink iceberg` in a process that dies by SIGKILL: `python lake_program.py MOMENT ARGUMENTS`

MOMENT: it dies after this many tables of a batch; -1: never. At its end it prints the content of the table `raw`, as
JSON.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping

from pyspark.sql import DataFrame
from sublet.spark.pipeline.command import add_arguments, settings_of
from sublet.spark.pipeline.layout import Batch
from sublet.spark.pipeline.running import run_pipeline
from sublet.spark.pipeline.session import session
from sublet.spark.pipeline.tables import Tables, open_tables
from sublet.spark.pipeline.tally import PlainLines, RunTally
from sublet.spark.plan.table_positions import TablePositions
from sublet.system.clock import SystemClock

from tests.spark.processes import kill_session


class DiesAfter:
    """Writes one table after the other."""

    def __init__(self, inner: Tables, moment: int) -> None:
        self.inner, self.moment = inner, moment

    def positions(self, table: str) -> TablePositions:
        return self.inner.positions(table)

    def write(self, tables: Mapping[str, DataFrame], batch: Batch) -> dict[str, int]:
        rows: dict[str, int] = {}
        for name, frame in tables.items():
            rows |= self.inner.write({name: frame}, batch)
            if len(rows) == self.moment:
                kill_session(os.getsid(0))
        return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("moment", type=int)
    add_arguments(parser)
    arguments = parser.parse_args()
    settings = settings_of(arguments)
    spark = session(settings, quiet=True)
    tables = DiesAfter(open_tables(spark, settings), arguments.moment)
    run_pipeline(spark, settings, RunTally(), PlainLines(print), SystemClock(), lambda: False, tables)
    for table in ("raw", "parsed", "rejected"):
        rows = spark.table(f"{settings.output}.{table}").select("sequenceNumber", "subSequenceNumber").collect()
        print(json.dumps([table, [list(row) for row in rows]]), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
