"""Command line options shared by both demos."""

from __future__ import annotations

import argparse
from types import FrameType

from demo.flights import ALL_FLIGHTS

FEWEST_EVENTS = 1_000


def event_count(text: str, fewest: int = FEWEST_EVENTS) -> int:
    if not text.isdecimal() or not fewest <= int(text) <= ALL_FLIGHTS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {fewest} to {ALL_FLIGHTS}")
    return int(text)


def interrupt(_signal: int, _frame: FrameType | None) -> None:
    """Ends a demo at SIGTERM as at Ctrl-C; also at SIGINT that a shell ignores, as it does for a background job."""
    raise KeyboardInterrupt
