"""`sublet` with all of its commands."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Sequence

from sublet.command_line import program
from sublet.command_line.command import Command

GROUPS: program.Groups = {
    "consume a stream": {
        "run": "sublet.command_line.run:COMMAND",
        "deploy": "sublet.operate.cli.deploy:DEPLOY",
        "synth": "sublet.operate.cli.deploy:SYNTH",
        "pipeline": "sublet.spark.pipeline.command:COMMAND",
    },
    "see how an application stands": {
        "status": "sublet.operate.cli.monitor.status:COMMAND",
        "doctor": "sublet.operate.cli.monitor.doctor:COMMAND",
        "applications": "sublet.operate.cli.monitor.applications:COMMAND",
        "shards": "sublet.operate.cli.monitor.shards:COMMAND",
        "workers": "sublet.operate.cli.monitor.workers:COMMAND",
        "leases": "sublet.operate.cli.monitor.leases:COMMAND",
        "streams": "sublet.operate.cli.monitor.streams:COMMAND",
        "hot": "sublet.operate.cli.monitor.hot:COMMAND",
        "lag": "sublet.operate.cli.monitor.lag:COMMAND",
        "history": "sublet.operate.cli.monitor.history:COMMAND",
        "diff": "sublet.operate.cli.positions.diff:COMMAND",
        "cost": "sublet.operate.cli.monitor.cost:COMMAND",
        "exporter": "sublet.operate.cli.monitor.exporter:COMMAND",
        "console": "sublet.operate.cli.console:COMMAND",
    },
    "read and write records": {
        "peek": "sublet.operate.cli.records.peek:COMMAND",
        "tail": "sublet.operate.cli.records.tail:COMMAND",
        "get": "sublet.operate.cli.records.get:COMMAND",
        "put": "sublet.operate.cli.records.put:COMMAND",
    },
    "move positions": {
        "seek": "sublet.operate.cli.positions.seek:SEEK",
        "undo": "sublet.operate.cli.positions.seek:UNDO",
        "snapshot": "sublet.operate.cli.positions.snapshots:SNAPSHOT",
        "snapshots": "sublet.operate.cli.positions.snapshots:SNAPSHOTS",
        "restore": "sublet.operate.cli.positions.seek:RESTORE",
        "skip": "sublet.operate.cli.positions.skip:COMMAND",
        "redrive": "sublet.operate.cli.positions.redrive:COMMAND",
    },
    "stop and start the workers": {
        "pause": "sublet.operate.cli.pausing:PAUSE",
        "resume": "sublet.operate.cli.pausing:RESUME",
        "drain": "sublet.operate.cli.pausing:DRAIN",
        "release": "sublet.operate.cli.pausing:RELEASE",
    },
    "set up the shell": {"completion": "sublet.operate.cli.completion:COMMAND"},
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code; see `program.main`."""
    return program.main(sys.argv[1:] if arguments is None else arguments, GROUPS)


def all_commands() -> tuple[Command, ...]:
    """Returns all commands, in the order of the help."""
    return program.commands(GROUPS)


def parser(given: Iterable[str] = ()) -> ArgumentParser:
    """Returns the parser of the command in `given`, or that of all commands if `given` names none."""
    return program.parser(given, GROUPS)
