"""A position in time as an argument."""

from __future__ import annotations

from argparse import ArgumentTypeError
from typing import TYPE_CHECKING

from sublet.errors import SeekRefused

if TYPE_CHECKING:
    from sublet.operate.positions.place import SeekTime


def place(text: str) -> SeekTime:
    from sublet.operate.positions.place import place as parsed

    try:
        return parsed(text)
    except SeekRefused as refused:
        raise ArgumentTypeError(str(refused)) from None
