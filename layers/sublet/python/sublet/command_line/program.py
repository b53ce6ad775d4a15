"""A program of several commands: parses the arguments, runs one command, and turns errors into a sentence and an exit
code.
"""

from __future__ import annotations

import os
import sys
from argparse import SUPPRESS, ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterable, Mapping, Sequence
from errno import ENOSPC
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path

from sublet import __version__
from sublet.command_line.command import Command
from sublet.command_line.terminal_text import harmless
from sublet.errors import SubletError

Groups = Mapping[str, Mapping[str, str]]
"""Where each command is, by name, in the groups of `--help`: `package.module:NAME`. Only the command that runs is
imported, since importing all of them takes a fifth of a second.
"""

USAGE = "%(prog)s [-h] [--version] COMMAND ..."


def main(given: Sequence[str], groups: Groups) -> int:
    """Returns the exit code: the command's own, 2 after an error (one sentence on standard error), or 130 after
    Ctrl-C.
    """
    _open_what_is_closed()
    _escape_what_cannot_be_encoded()
    try:
        return _run(given, groups)
    except SubletError as problem:
        print(f"sublet: {harmless(str(problem))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("sublet: interrupted", file=sys.stderr)
        return 130  # like a process that SIGINT has ended
    except BrokenPipeError:
        # As in `sublet tail | head`. Nothing is wrong, but Python's own flush at exit would report an error.
        drop_output()
        return 0
    except Exception as problem:  # noqa: BLE001 -- a traceback would end with 1, which means that something is unhealthy
        if isinstance(problem, OSError) and problem.errno == ENOSPC:
            drop_output()
            said = f"the output cannot be written: {problem.strerror}"
        else:
            from sublet.command_line.problems import unexpected

            said = unexpected(problem, next(iter(given), ""))
        print(f"sublet: {harmless(said)}", file=sys.stderr)
        return 2


def _run(given: Sequence[str], groups: Groups) -> int:
    try:
        options = _parsed(given, groups)
        return int(options.command.run(options))
    finally:
        if not sys.stdout.closed:
            sys.stdout.flush()  # what a pipe has buffered, so that `main` handles its errors and not Python's exit


def drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _open_what_is_closed() -> None:
    """Opens /dev/null for each standard stream that the process began without, as after `>&-`. Python has None for it
    then.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 (open until the process ends)


def _escape_what_cannot_be_encoded() -> None:
    """Shows characters that the output's encoding lacks as escapes. Records have any, and a terminal or a pipe may be
    cp1252.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _parsed(given: Sequence[str], groups: Groups) -> Namespace:
    """Parses the arguments. Importing the command's modules takes most of a start, so `main` handles a Ctrl-C during
    it.
    """
    known = _places(groups)
    if given[:1] == ["help"]:
        given = [*given[1:2], "--help"]
    if given and not given[0].startswith("-") and given[0] not in known:
        from sublet.command_line.problems import no_such_command

        ArgumentParser("sublet", USAGE).error(no_such_command(given[0], known))
    program = parser(given[:1], groups)
    options, unknown = program.parse_known_args(given)
    chosen = getattr(options, "parser", program)
    if unknown:
        from sublet.command_line.problems import unrecognized

        chosen.error(unrecognized(unknown, chosen))
    if chosen is program:
        program.error("name a command; `sublet --help` lists them")
    return options


def commands(groups: Groups) -> tuple[Command, ...]:
    """Returns all commands, in the order of the help."""
    return tuple(map(_command, _places(groups).values()))


def _places(groups: Groups) -> Mapping[str, str]:
    return {name: place for group in groups.values() for name, place in group.items()}


def _command(place: str) -> Command:
    module, attribute = place.split(":")
    found: Command = getattr(import_module(module), attribute)
    return found


def parser(given: Iterable[str], groups: Groups) -> ArgumentParser:
    """Returns the parser of the command in `given`, or that of all commands if `given` names none."""
    known = _places(groups)
    chosen = [_command(known[name]) for name in given if name in known]
    program = ArgumentParser(
        prog="sublet",
        usage=USAGE,
        description="Consume Kinesis streams on KCL's leases.",
        epilog=None if chosen else _summaries(groups),
        formatter_class=RawDescriptionHelpFormatter,
    )
    program.add_argument("--version", action="version", version=f"sublet {__version__}")
    subparsers = program.add_subparsers(metavar="COMMAND", prog="sublet", help=SUPPRESS)
    for command in chosen or commands(groups):
        subparser = subparsers.add_parser(command.name, allow_abbrev=False)
        subparser.set_defaults(command=command, parser=subparser)
        command.add_arguments(subparser)
    return program


def _summaries(groups: Groups) -> str:
    """A line for each command, by group. argparse's own list has no groups, and breaks the lines of the longest
    names.
    """
    width = max(map(len, _places(groups)))
    lines = []
    for title, names in groups.items():
        lines += [
            f"{title}:",
            *(f"  {name:<{width}}  {_command(place).summary}" for name, place in names.items()),
            "",
        ]
    return "\n".join([*lines, "`sublet COMMAND --help` explains each."])
