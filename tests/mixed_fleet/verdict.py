"""What all workers wrote down, judged: nothing missing, nothing out of order, parents first, and each duplicate explained."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.e2e.deliveries import Delivery, out_of_order
from tests.mixed_fleet.workers import End, Worker


class Handled(NamedTuple):
    """A delivery, and who handled it."""

    delivery: Delivery
    worker_id: str


class Verdict(NamedTuple):
    """`duplicates` counts by explanation; everything else must be empty."""

    handled: int
    missing: tuple[str, ...]
    out_of_order: tuple[str, ...]
    children_too_early: tuple[str, ...]
    unexplained: tuple[str, ...]
    duplicates: Mapping[str, int]

    @property
    def is_clean(self) -> bool:
        return not (self.missing or self.out_of_order or self.children_too_early or self.unexplained)


def read_handled(folder: Path, workers: Iterable[Worker]) -> list[Handled]:
    """In the order of time. A line cut short by a kill was not handled."""
    names = {worker.process.pid: worker.worker_id for worker in workers}
    found = [
        Handled(Delivery(*json.loads(line)), names[int(path.stem)])
        for path in folder.glob("*.jsonl")
        for line in path.read_text().splitlines(keepends=True)
        if line.endswith("]\n")
    ]
    return sorted(found)


def judge(
    handled: Sequence[Handled],
    put: Iterable[str],
    parents: Mapping[str, Iterable[str]],
    ends: Mapping[str, End | None],
) -> Verdict:
    """`parents`: of each shard; `ends`: how the story ended each worker."""
    deliveries = [one.delivery for one in handled]
    duplicates, unexplained = _duplicates(handled, ends)
    return Verdict(
        handled=len(handled),
        missing=tuple(sorted(set(put) - {delivery.text for delivery in deliveries})),
        out_of_order=tuple(out_of_order(deliveries)),
        children_too_early=tuple(_children_too_early(deliveries, parents)),
        unexplained=tuple(unexplained),
        duplicates=duplicates,
    )


def _children_too_early(deliveries: Sequence[Delivery], parents: Mapping[str, Iterable[str]]) -> list[str]:
    """A shard's first delivery must come after each record of its parents has been delivered once."""
    begun: dict[str, int] = {}
    done: dict[str, int] = {}
    seen: set[str] = set()
    for delivery in deliveries:
        begun.setdefault(delivery.shard_id, delivery.at)
        if delivery.text not in seen:
            done[delivery.shard_id] = delivery.at
        seen.add(delivery.text)
    return [
        f"{child} began before its parent {parent} was done"
        for child, mine in parents.items()
        for parent in mine
        if child in begun and parent in done and begun[child] < done[parent]
    ]


def _duplicates(handled: Sequence[Handled], ends: Mapping[str, End | None]) -> tuple[Counter[str], list[str]]:
    """A record comes again to another worker, because the one before died, was stopped or lost the lease before its
    checkpoint. To the same worker again, which nothing here should cause, is unexplained.
    """
    last: dict[str, str] = {}
    counted: Counter[str] = Counter()
    unexplained = []
    for delivery, worker_id in handled:
        before = last.get(delivery.text)
        if before == worker_id:
            unexplained.append(f"{delivery.text} came twice to {worker_id}")
        elif before is not None:
            counted[
                f"{_side(before)} {_what_happened(ends[before], delivery)}, again on {_side(worker_id)}"
            ] += 1
        last[delivery.text] = worker_id
    return counted, unexplained


def _what_happened(end: End | None, delivery: Delivery) -> str:
    return end.how if end is not None and end.at < delivery.at else "lost the lease"


def _side(worker_id: str) -> str:
    return worker_id.rpartition("-")[0]
