"""Makes KPL aggregates of about 50 KB, as a producer with the KPL's defaults does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sublet.protocol.aggregation import KPL_MAX_BYTES, aggregate

FRAMES = 8
"""About how many bytes an aggregate adds to each user record."""

Row = tuple[str, None, bytes]
"""A partition key, no explicit hash key, and data."""


def kpl_aggregates(rows: Iterable[Row]) -> Iterator[tuple[str, bytes, int]]:
    """The first partition key, the data and the number of user records of each aggregate. The rest of the rows is
    dropped.
    """
    taken: list[Row] = []
    keys: set[str] = set()
    size = 0
    for row in rows:
        key, _, data = row
        added = len(data) + FRAMES + (0 if key in keys else len(key) + 2)
        if taken and size + added > KPL_MAX_BYTES:
            yield taken[0][0], aggregate(taken), len(taken)
            taken, keys, size = [], set(), 0
            added = len(data) + FRAMES + len(key) + 2
        taken.append(row)
        keys.add(key)
        size += added
