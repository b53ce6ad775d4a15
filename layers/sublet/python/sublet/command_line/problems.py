"""What the program says of arguments that it does not know, and of exceptions that nothing has named."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from pathlib import Path
from traceback import extract_tb, print_exception

from sublet.command_line.settings_options import option_of
from sublet.settings import DEFINITIONS
from sublet.settings.suggestions import nearest
from sublet.settings.value import names_elsewhere

_OPTION = re.compile(r"^ +(?:-\w, )?(--[\w-]+)", re.MULTILINE)
"""Finds the options in the help text, since argparse has no public list of them."""


def unrecognized(words: Sequence[str], parser: ArgumentParser) -> str:
    """Returns one sentence about the arguments that the command's parser did not recognize."""
    option = next((word.partition("=")[0] for word in words if word.startswith("-")), None)
    if option is None:
        return f"unrecognized arguments: {' '.join(words)}"
    known = set(_OPTION.findall(parser.format_help()))
    begin_so = [each for each in known if each.startswith(option)]
    elsewhere = names_elsewhere()
    meant = nearest(option, known, elsewhere) or (begin_so[0] if len(begin_so) == 1 else None)
    if meant is None and "--set" in known and (setting := nearest(option, DEFINITIONS, elsewhere)):
        meant = f"--set {setting}=..."
    if meant is not None:
        return f"unrecognized option {option}; did you mean {meant}?"
    only = next((each.only for each in DEFINITIONS.values() if option_of(each.name) == option), None)
    return f"unrecognized option {option}{f'; it is only for {only.described}' if only else ''}"


PACKAGE = Path(__file__).parent.parent
PROGRAMS = frozenset({"run", "pipeline"})
"""The commands that run the user's own code, whose log the whole traceback belongs in."""


def unexpected(problem: Exception, command: str) -> str:
    """Returns the sentence. Prints the traceback before it if the command is a program, or in Python's development
    mode.
    """
    if command in PROGRAMS or sys.flags.dev_mode:
        print_exception(problem)
    said = " ".join(str(problem).split())
    if _is_of_aws(problem):
        return said
    kind = type(problem).__name__
    return f"an error of sublet, {kind}: {said}{_place_of(problem)}; `python -X dev -m sublet ...` shows the traceback"


def _is_of_aws(problem: Exception) -> bool:
    """Whether boto3 raised it: its text names the call and the service's own words."""
    return any(kind.__module__.partition(".")[0] in ("botocore", "boto3") for kind in type(problem).__mro__)


def _place_of(problem: Exception) -> str:
    """Where in sublet it was raised, or what was called from there."""
    ours = [frame for frame in extract_tb(problem.__traceback__) if PACKAGE in Path(frame.filename).parents]
    if not ours:
        return ""
    return f" ({Path(ours[-1].filename).relative_to(PACKAGE)}, line {ours[-1].lineno})"


def no_such_command(name: str, known: Iterable[str]) -> str:
    meant = nearest(name, known)
    return f"there is no command {name!r}" + (f"; did you mean {meant}?" if meant else "; `sublet --help` lists them")
