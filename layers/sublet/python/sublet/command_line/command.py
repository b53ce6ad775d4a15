"""A subcommand of `sublet`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand. `run` takes the parsed arguments and returns the exit code. It may raise SubletError, which is
    printed as one sentence.

    A command imports what it needs when it runs, so that `sublet --help` is fast and works without the extras.
    """

    name: str
    summary: str
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]


def explain(parser: ArgumentParser, description: str, examples: str) -> None:
    """Sets the command's help text; its line breaks are kept."""
    parser.description, parser.epilog = description, examples
    parser.formatter_class = RawDescriptionHelpFormatter
