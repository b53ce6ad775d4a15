"""Divides what a batch reads among its tasks. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush


def partitions_of(weights: Sequence[float], most: int | None) -> list[list[int]]:
    """Divides shards into at most `most` partitions (None: a partition each) of about the same weight, and about as
    many shards. Returns the shards' places, in order.

    A shard is in one partition as a whole, because its rows are read in order. The heaviest shards are given out first,
    each to the partition that is lightest so far.
    """
    if most is None or most >= len(weights):
        return [[place] for place in range(len(weights))]
    lightest = [(0.0, 0, number) for number in range(most)]
    heapify(lightest)
    parts: list[list[int]] = [[] for _ in range(most)]
    for place in sorted(range(len(weights)), key=lambda place: (-weights[place], place)):
        weight, shards, number = heappop(lightest)
        parts[number].append(place)
        heappush(lightest, (weight + weights[place], shards + 1, number))
    return sorted(sorted(part) for part in parts)
