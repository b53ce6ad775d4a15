"""`sublet` and `python -m sublet`."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module

from sublet import __version__
from sublet.cli.command import Command
from sublet.cli.shown import harmless
from sublet.errors import SubletError

PLACES: Mapping[str, str] = {
    "run": "run.COMMAND",
    "applications": "applications.COMMAND",
    "status": "status.COMMAND",
    "shards": "shards.COMMAND",
    "workers": "workers.COMMAND",
    "streams": "streams.COMMAND",
    "console": "console.COMMAND",
    "doctor": "doctor.COMMAND",
    "hot": "hot.COMMAND",
    "cost": "cost.COMMAND",
    "leases": "leases.COMMAND",
    "peek": "peek.COMMAND",
    "tail": "tail.COMMAND",
    "get": "get.COMMAND",
    "put": "put.COMMAND",
    "redrive": "redrive.COMMAND",
    "seek": "seek.SEEK",
    "undo": "seek.UNDO",
    "restore": "seek.RESTORE",
    "skip": "skip.COMMAND",
    "snapshot": "snapshots.SNAPSHOT",
    "snapshots": "snapshots.SNAPSHOTS",
    "history": "history.COMMAND",
    "pause": "pausing.PAUSE",
    "resume": "pausing.RESUME",
    "drain": "pausing.DRAIN",
    "release": "pausing.RELEASE",
    "pipeline": "pipeline.COMMAND",
    "deploy": "deploy.DEPLOY",
    "synth": "deploy.SYNTH",
    "completion": "completion.COMMAND",
}
"""Where each command is, by name. Only the command that runs is imported, since importing all of them takes a fifth of a
second.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: the command's own; 2 with one sentence on standard error; or 130 after Ctrl-C."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        options = _parsed(given)
        return int(options.command.run(options))
    except SubletError as problem:
        print(f"sublet: {harmless(str(problem))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("sublet: interrupted", file=sys.stderr)
        return 130  # as of a process that SIGINT ended
    except BrokenPipeError:
        # As of `sublet tail | head`: nothing is wrong, and Python's own flush at the end would say so.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parsed(given: Sequence[str]) -> Namespace:
    """Imports the command's modules, which takes most of a start: so that a Ctrl-C meanwhile ends it without a traceback."""
    options, unknown = parser(given[:1]).parse_known_args(given)
    if unknown:
        from sublet.cli.unrecognized import unrecognized

        options.parser.error(unrecognized(unknown, options.parser))
    return options


def all_commands() -> tuple[Command, ...]:
    """Returns them in the order of PLACES."""
    return tuple(_command(name) for name in PLACES)


def _command(name: str) -> Command:
    module, attribute = PLACES[name].split(".")
    found: Command = getattr(import_module(f"sublet.cli.{module}"), attribute)
    return found


def parser(given: Iterable[str] = ()) -> ArgumentParser:
    """Returns the parser of the command in `given`, or that of all commands if `given` names none."""
    program = ArgumentParser(
        prog="sublet",
        description="Consume Kinesis streams on KCL's leases.",
        epilog="`sublet COMMAND --help` explains each.",
    )
    program.add_argument("--version", action="version", version=f"sublet {__version__}")
    subparsers = program.add_subparsers(required=True, metavar="COMMAND", title="commands")
    for command in [_command(name) for name in given if name in PLACES] or all_commands():
        subparser = subparsers.add_parser(command.name, help=command.summary, allow_abbrev=False)
        subparser.set_defaults(command=command, parser=subparser)
        command.add_arguments(subparser)
    return program
