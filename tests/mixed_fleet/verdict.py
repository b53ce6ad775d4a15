"""Judges what all workers recorded and all writes to the lease table: nothing missing, nothing out of order, parents
first, and each repeat explained by a checkpoint.

A tenure is one owner's time with one lease, from the write that made it the owner to the one that made another, or to
the next window of its own. A tenure starts after the row's checkpoint at that time: so no worker handles earlier
records, none handles a record twice in a tenure, and a record that comes again in the next one is beyond that
checkpoint.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import decode_row

from tests.e2e.deliveries import Delivery, out_of_order
from tests.mixed_fleet.history import RowWritten
from tests.mixed_fleet.workers import End, Worker

LOST = "lost the lease"
"""What happened to a previous owner that had neither been killed nor stopped."""


class Handled(NamedTuple):
    """A delivery, and the worker that handled it."""

    delivery: Delivery
    worker_id: str

    @property
    def position(self) -> Checkpoint:
        return Checkpoint(self.delivery.sequence_number, self.delivery.sub_sequence_number)


class Tenure(NamedTuple):
    """`since` in nanoseconds since the epoch; `checkpoint` is the row's at that time."""

    since: int
    worker_id: str
    checkpoint: Checkpoint


class Repeat(NamedTuple):
    """Handled by a worker of `before`, to which `what` happened, then again by one of `after`."""

    before: str
    what: str
    after: str

    def __str__(self) -> str:
        return f"{self.before} {self.what}, again on {self.after}"


class Verdict(NamedTuple):
    """`repeats` are counted; everything else except `handled` must be empty."""

    handled: int
    missing: tuple[str, ...]
    out_of_order: tuple[str, ...]
    children_too_early: tuple[str, ...]
    unexplained: tuple[str, ...]
    repeats: Mapping[Repeat, int]

    @property
    def is_clean(self) -> bool:
        return not (self.missing or self.out_of_order or self.children_too_early or self.unexplained)


def read_handled(folder: Path, workers: Iterable[Worker], others: str | None = None) -> list[Handled]:
    """Sorted by time. A line cut short by a kill was not handled. `others`: the worker id of every other process."""
    names = {str(worker.process.pid): worker.worker_id for worker in workers}
    found = [
        Handled(Delivery(*json.loads(line)), names[path.stem] if others is None else names.get(path.stem, others))
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
    writes: Iterable[RowWritten],
    unordered: Iterable[str] = (),
) -> Verdict:
    """`parents`: of each shard; `ends`: how the story ended each worker; `writes`: to the lease table, in order;
    `unordered`: texts without guaranteed order, such as the KPL's, which retries failed records."""
    apart = set(unordered)
    deliveries = [one.delivery for one in handled]
    tenures = tenures_of(writes)
    return Verdict(
        handled=len(handled),
        missing=tuple(sorted({*put, *apart} - {delivery.text for delivery in deliveries})),
        out_of_order=tuple(out_of_order(one for one in deliveries if one.text not in apart)),
        children_too_early=tuple(_children_too_early(deliveries, parents)),
        unexplained=tuple(_unexplained(handled, tenures)),
        repeats=_repeats(handled, ends, tenures),
    )


def tenures_of(writes: Iterable[RowWritten]) -> dict[str, list[Tenure]]:
    """By shard, in order. In a KCL 3.x handoff the old owner has the lease until `checkpointOwner` is gone."""
    found: dict[str, list[Tenure]] = defaultdict(list)
    holders: dict[str, tuple[str | None, str | None]] = {}
    for at, key, row in writes:
        lease = decode_row(row) if row is not None else None
        if not isinstance(lease, Lease):
            continue
        owner = lease.checkpoint_owner or lease.lease_owner
        if owner is not None and holders.get(key) != (owner, lease.holder):
            found[lease.shard_id].append(Tenure(at, owner, lease.checkpoint))
        holders[key] = (owner, lease.holder)
    return found


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


def _unexplained(handled: Iterable[Handled], tenures: Mapping[str, Sequence[Tenure]]) -> list[str]:
    """Records handled without a tenure, before its tenure's checkpoint, or twice in one."""
    wrong = []
    seen: set[tuple[str, Tenure]] = set()
    for one in handled:
        delivery, worker_id = one
        tenure = _tenure_at(delivery.at, worker_id, tenures.get(delivery.shard_id, ()))
        if tenure is None:
            wrong.append(f"{delivery.text} came to {worker_id}, which never had {delivery.shard_id}")
        elif one.position <= tenure.checkpoint:
            wrong.append(
                f"{delivery.text} came to {worker_id}, which began {delivery.shard_id} behind it at {tenure.checkpoint}"
            )
        elif (delivery.text, tenure) in seen:
            wrong.append(f"{delivery.text} came twice to {worker_id} in one tenure of {delivery.shard_id}")
        else:
            seen.add((delivery.text, tenure))
    return wrong


def _tenure_at(at: int, worker_id: str, of_shard: Sequence[Tenure]) -> Tenure | None:
    """The worker's last tenure that had begun: it may have been handling a batch when it lost the lease."""
    mine = [tenure for tenure in of_shard if tenure.worker_id == worker_id]
    index = bisect_right(mine, at, key=lambda tenure: tenure.since)
    return mine[index - 1] if index else None


def _repeats(
    handled: Iterable[Handled], ends: Mapping[str, End | None], tenures: Mapping[str, Sequence[Tenure]]
) -> Counter[Repeat]:
    """By what had happened to the worker that handled the record before."""
    last: dict[str, Handled] = {}
    counted: Counter[Repeat] = Counter()
    for one in handled:
        before = last.get(one.delivery.text)
        if before is not None:
            of_shard = tenures.get(before.delivery.shard_id, ())
            what = _what_happened(before, ends.get(before.worker_id), one.delivery.at, of_shard)
            counted[Repeat(_side(before.worker_id), what, _side(one.worker_id))] += 1
        last[one.delivery.text] = one
    return counted


def _what_happened(before: Handled, end: End | None, again_at: int, of_shard: Sequence[Tenure]) -> str:
    """A worker that had already lost the lease when the story ended it repeated nothing because of that end."""
    if end is None or end.at >= again_at:
        return LOST
    tenure = _tenure_at(before.delivery.at, before.worker_id, of_shard)
    is_over = tenure is not None and any(tenure.since < other.since < end.at for other in of_shard)
    return LOST if is_over else end.how


def _side(worker_id: str) -> str:
    return worker_id.rpartition("-")[0]
