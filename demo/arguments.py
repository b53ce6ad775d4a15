"""What the command lines of both demos have in common."""

from __future__ import annotations

import argparse
from types import FrameType

from demo.flights import ALL_FLIGHTS

FEWEST_EVENTS = 1_000


def event_count(text: str, fewest: int = FEWEST_EVENTS) -> int:
    if not text.isdecimal() or not fewest <= int(text) <= ALL_FLIGHTS:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {fewest} to {ALL_FLIGHTS}")
    return int(text)


def interrupt(_signal: int, _frame: FrameType | None) -> None:
    """SIGTERM ends a demo as Ctrl-C does; and so does SIGINT where a shell has it ignored, as for a job in the background."""
    raise KeyboardInterrupt
