"""Suggests an option for one that a command does not have."""

from __future__ import annotations

import re
from argparse import ArgumentParser
from collections.abc import Sequence

from sublet.command_line.settings_options import option_of
from sublet.settings import DEFINITIONS, nearest

_OPTION = re.compile(r"^ +(?:-\w, )?(--[\w-]+)", re.MULTILINE)
"""Finds the options in the help text, since argparse has no public list of them."""


def unrecognized(words: Sequence[str], parser: ArgumentParser) -> str:
    """Returns one sentence about the arguments that the command's parser did not recognize."""
    option = next((word.partition("=")[0] for word in words if word.startswith("-")), None)
    if option is None:
        return f"unrecognized arguments: {' '.join(words)}"
    known = set(_OPTION.findall(parser.format_help()))
    begin_so = [each for each in known if each.startswith(option)]
    meant = begin_so[0] if len(begin_so) == 1 else nearest(option, known)
    if meant is None and "--set" in known and (setting := nearest(option, DEFINITIONS)):
        meant = f"--set {setting}=..."
    if meant is not None:
        return f"unrecognized option {option}; did you mean {meant}?"
    only = next((each.only for each in DEFINITIONS.values() if option_of(each.name) == option), None)
    return f"unrecognized option {option}{f'; it is only for {only.described}' if only else ''}"
