"""The proof: what the handler stored, compared with the data set.

Order per partition key is proven in two steps. Within a shard, the handler has seen each key's running numbers
consecutively; if not, it began another run and counted that. Across shards (a key moves when its shard is split or
merged) the runs must follow each other without a gap, from a shard to one of its descendants, and each must have
begun after the previous one had ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from sublet.protocol.shard import Shard

from demo.flights import Figures
from examples.flights.flights import ShardTotals

Expected = Mapping[str, int]
"""Events per partition key."""

EXAMPLES = 5
"""How many problems to list."""


class Segment(NamedTuple):
    """One partition key's run in one shard: all running numbers from first to last."""

    key: str
    first: int
    last: int
    shard_id: str

    @property
    def events(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Proof:
    expected: int
    handled: int
    missing: int
    redelivered: int
    """Deliveries of records that were already handled. Delivery is at least once, so this is no fault."""
    repeated: int
    """Events that the producer put into the same shard twice, because Kinesis' answer was lost or late. `handled`
    counts each of them once; an event in two shards is a fault."""
    keys: int
    keys_that_moved: int
    """Keys whose events are in more than one shard."""
    disorder: tuple[str, ...]
    """Descriptions of what is out of order."""
    figures: Mapping[str, Figures]
    differing: tuple[str, ...]
    """Carriers whose figures differ from the data set's."""

    @property
    def holds(self) -> bool:
        return not (self.missing or self.disorder or self.differing) and self.handled == self.expected


def prove(
    rows: Iterable[ShardTotals], shards: Iterable[Shard], expected: Expected, figures: Mapping[str, Figures]
) -> Proof:
    totals = {row.shard_id: row for row in rows}
    segments = _segments(totals.values())
    stored = stored_figures(totals.values())
    disorder = [
        f"{row.shard_id}: {row.out_of_order:,} events did not follow the one before"
        for row in totals.values()
        if row.out_of_order
    ]
    ancestors = _ancestors(shards)
    for key in segments:
        disorder += _breaks(segments[key], ancestors, totals)
    return Proof(
        expected=sum(expected.values()),
        handled=sum(row.events for row in totals.values()),
        missing=sum(max(count - _handled(segments, key), 0) for key, count in expected.items()),
        redelivered=sum(row.redelivered for row in totals.values()),
        repeated=sum(row.repeated for row in totals.values()),
        keys=len(expected),
        keys_that_moved=sum(len({segment.shard_id for segment in run}) > 1 for run in segments.values()),
        disorder=tuple(disorder),
        figures=stored,
        differing=tuple(sorted(c for c in stored.keys() | figures.keys() if stored.get(c) != figures.get(c))),
    )


def stored_figures(rows: Iterable[ShardTotals]) -> dict[str, Figures]:
    """Returns the stored figures per carrier, over all shards."""
    sums: dict[str, list[int]] = {}
    for row in rows:
        for carrier, figures in row.carriers.items():
            sums[carrier] = [a + b for a, b in zip(sums.get(carrier, [0] * len(figures)), figures, strict=True)]
    return {carrier: Figures(*values) for carrier, values in sorted(sums.items())}


def _segments(rows: Iterable[ShardTotals]) -> dict[str, list[Segment]]:
    """Returns each key's segments, in the order of their numbers."""
    segments: dict[str, list[Segment]] = {}
    for row in rows:
        for key, runs in row.keys.items():
            segments.setdefault(key, []).extend(Segment(key, first, last, row.shard_id) for first, last in runs)
    return {key: sorted(run, key=lambda segment: segment.first) for key, run in segments.items()}


def _handled(segments: Mapping[str, list[Segment]], key: str) -> int:
    return sum(segment.events for segment in segments.get(key, ()))


def _breaks(
    run: list[Segment], ancestors: Mapping[str, frozenset[str]], totals: Mapping[str, ShardTotals]
) -> list[str]:
    """Says where a key's segments do not follow each other."""
    found = []
    if run[0].first != 1:
        found.append(f"{run[0].key}: begins with number {run[0].first} in {run[0].shard_id}")
    for before, after in pairwise(run):
        passage = f"{before.key}: from number {before.last} in {before.shard_id} to {after.first} in {after.shard_id}"
        if after.first != before.last + 1:
            found.append(passage)
        elif before.shard_id not in ancestors.get(after.shard_id, frozenset()):
            found.append(f"{passage}, which does not descend from it")
        elif (totals[after.shard_id].began_at or 0) < (totals[before.shard_id].ended_at or 0):
            found.append(f"{passage}, which had begun before the other was finished")
    return found


def _ancestors(shards: Iterable[Shard]) -> dict[str, frozenset[str]]:
    """All ancestors, by shard id. Parents are listed before their children, in Kinesis' order of creation."""
    ancestors: dict[str, frozenset[str]] = {}
    for shard in sorted(shards, key=lambda shard: (int(shard.starting_sequence_number), shard.shard_id)):
        parents = shard.parent_shard_ids
        ancestors[shard.shard_id] = parents.union(*(ancestors.get(parent, frozenset()) for parent in parents))
    return ancestors
