"""Columns of names that may be long, such as those of leases' owners."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable

from sublet.cli.shown import printable, shortened
from sublet.decisions.shard_status import ShardStatus

OWNER_WIDTH = 24
"""Of most owners."""
WHY_BESIDE_OWNERS = 24
"""What a line keeps for its reason where owners have long names."""

GONE = " (gone)"


def name_width(names: Iterable[str], usual: int, beside: int) -> int:
    """As wide as the longest name, and at least `usual`. In a terminal, otherwise no wider than what the `beside` characters
    of a line's other columns leave.
    """
    longest = max(map(len, names), default=0)
    if sys.stdout.isatty():
        longest = min(longest, shutil.get_terminal_size().columns - beside)
    return max(longest, usual)


def owner_width(shards: Iterable[ShardStatus], beside: int) -> int:
    """See `name_width`."""
    return name_width((owner_text(shard, None) for shard in shards), OWNER_WIDTH, beside)


def owner_text(shard: ShardStatus, width: int | None) -> str:
    """No longer than `width`. That the owner is gone is not cut off."""
    owner, gone = printable(shard.owner or "-"), GONE if shard.is_owner_gone else ""
    return (owner if width is None else shortened(owner, width - len(gone))) + gone
