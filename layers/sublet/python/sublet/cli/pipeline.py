"""`sublet pipeline`; `sublet.pipeline` describes it."""

from __future__ import annotations

from sublet.cli.command import Command
from sublet.pipeline import command

COMMAND = Command(
    "pipeline",
    "bring a stream into tables with Spark, each record once",
    command.add_arguments,
    command.run,
)
