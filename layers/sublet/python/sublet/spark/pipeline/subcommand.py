"""`sublet pipeline`; `sublet.spark.pipeline` describes it."""

from __future__ import annotations

from sublet.command_line.command import Command
from sublet.spark.pipeline import command

COMMAND = Command(
    "pipeline",
    "bring a stream into tables with Spark, each record once",
    command.add_arguments,
    command.run,
)
