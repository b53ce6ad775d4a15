"""`sublet` and `python -m sublet`."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from collections.abc import Sequence

from sublet import __version__
from sublet.cli import (
    applications,
    completion,
    console,
    cost,
    deploy,
    doctor,
    get,
    history,
    leases,
    pausing,
    peek,
    pipeline,
    put,
    redrive,
    run,
    seek,
    shards,
    skip,
    snapshots,
    status,
    tail,
    workers,
)
from sublet.cli.command import Command
from sublet.cli.unrecognized import unrecognized
from sublet.errors import SubletError

COMMANDS: tuple[Command, ...] = (
    run.COMMAND,
    applications.COMMAND,
    status.COMMAND,
    shards.COMMAND,
    workers.COMMAND,
    console.COMMAND,
    doctor.COMMAND,
    cost.COMMAND,
    leases.COMMAND,
    peek.COMMAND,
    tail.COMMAND,
    get.COMMAND,
    put.COMMAND,
    redrive.COMMAND,
    seek.SEEK,
    seek.UNDO,
    seek.RESTORE,
    skip.COMMAND,
    snapshots.SNAPSHOT,
    snapshots.SNAPSHOTS,
    history.COMMAND,
    pausing.PAUSE,
    pausing.RESUME,
    pausing.DRAIN,
    pausing.RELEASE,
    pipeline.COMMAND,
    deploy.DEPLOY,
    deploy.SYNTH,
    completion.COMMAND,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: the command's own, or 2 with one sentence on standard error."""
    options, unknown = parser().parse_known_args(arguments)
    if unknown:
        options.parser.error(unrecognized(unknown, options.parser))
    try:
        return int(options.command.run(options))
    except SubletError as problem:
        print(f"sublet: {problem}", file=sys.stderr)
        return 2
    except (
        BrokenPipeError
    ):  # as of `sublet tail | head`: nothing is wrong, and Python's own flush at the end would say so
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def parser() -> ArgumentParser:
    program = ArgumentParser(
        prog="sublet",
        description="Consume Kinesis streams on KCL's leases.",
        epilog="`sublet COMMAND --help` explains each.",
    )
    program.add_argument("--version", action="version", version=f"sublet {__version__}")
    subparsers = program.add_subparsers(required=True, metavar="COMMAND", title="commands")
    for command in COMMANDS:
        subparser = subparsers.add_parser(command.name, help=command.summary)
        subparser.set_defaults(command=command, parser=subparser)
        command.add_arguments(subparser)
    return program
