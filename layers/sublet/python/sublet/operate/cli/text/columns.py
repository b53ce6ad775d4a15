"""Columns for names that may be long, such as owners' names."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable

from sublet.command_line.terminal_text import printable
from sublet.decisions.status.shard_status import ShardStatus
from sublet.operate.formatting import shortened

OWNER_WIDTH = 24
"""Most owners' names are no longer than this."""
WHY_BESIDE_OWNERS = 24
"""How many characters a line keeps for its reason if owners have long names."""

GONE = " (gone)"


def name_width(names: Iterable[str], usual: int, beside: int) -> int:
    """Returns the width of the longest name, but at least `usual`. In a terminal it also leaves room for the `beside`
    characters of a line's other columns.
    """
    longest = max(map(len, names), default=0)
    if sys.stdout.isatty():
        longest = min(longest, shutil.get_terminal_size().columns - beside)
    return max(longest, usual)


def owner_width(shards: Iterable[ShardStatus], beside: int) -> int:
    """Returns the width of the owners' column: see `name_width`."""
    return name_width((owner_text(shard, None) for shard in shards), OWNER_WIDTH, beside)


def owner_text(shard: ShardStatus, width: int | None) -> str:
    """Cuts the owner's name to `width`, but never the note that the owner is gone."""
    owner, gone = printable(shard.owner or "-"), GONE if shard.is_owner_gone else ""
    return (owner if width is None else shortened(owner, width - len(gone))) + gone
