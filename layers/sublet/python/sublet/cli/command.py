"""What a command of `sublet` is made of."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """`run` gets the parsed arguments and returns the exit code. It may raise SubletError, which is shown as one sentence.

    What a command needs is imported when it runs: `sublet --help` is there at once, and without the extras.
    """

    name: str
    summary: str
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]
