"""Judges all workers' journals: nothing missing, and the order of each partition key kept, exactly.

Order means three things. Over the whole fleet, a record is first seen after all earlier ones of its key. Within a
tenure (one process with one lease for one window), a key's numbers are consecutive, and after a failed call continue
with the first record that was not done. And no tenure begins before what the lease's row was known to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sublet.protocol.checkpoint import Checkpoint

from tests.chaos.journal import Begun, Call, Entry
from tests.chaos.recovery import NANOSECONDS, Fault
from tests.e2e.deliveries import Delivery, out_of_order

SETTLED = 25 * NANOSECONDS
"""From an acquire, which reads the row, until the handler is told: a few times the patience of DynamoDB's client."""


class Sighting(NamedTuple):
    """From `at` on, the lease's row has said at least this."""

    at: int
    checkpoint: Checkpoint


class Verdict(NamedTuple):
    """`missing`, `out_of_order`, `broken_tenures` and `too_far_back` must be empty; they describe what is wrong.

    `handled` counts distinct records; `again` those that were done once more; `unfinished` those that a failed call
    saw and did not finish.
    """

    put: int
    handled: int
    again: int
    unfinished: int
    calls: int
    failed_calls: int
    missing: tuple[str, ...]
    out_of_order: tuple[str, ...]
    broken_tenures: tuple[str, ...]
    too_far_back: tuple[str, ...]

    @property
    def order_violations(self) -> int:
        return len(self.out_of_order) + len(self.broken_tenures) + len(self.too_far_back)

    @property
    def is_clean(self) -> bool:
        return not self.missing and not self.order_violations

    @property
    def redelivered_share(self) -> float:
        """Of all records that were done."""
        return self.again / max(self.handled + self.again, 1)


def judge(
    put: Iterable[str],
    entries: Sequence[Entry],
    rows: Mapping[str, Sequence[Sighting]],
    suspended: Mapping[int, Sequence[Fault]],
) -> Verdict:
    """`rows`: by shard, each further checkpoint, sorted by time; `suspended`: by process, when."""
    calls = [entry for entry in entries if isinstance(entry, Call)]
    done = [record.text for call in calls for record in call.records[: call.done]]
    wanted, handled = set(put), set(done)
    return Verdict(
        put=len(wanted),
        handled=len(handled),
        again=len(done) - len(handled),
        unfinished=sum(len(call.records) - call.done for call in calls),
        calls=len(calls),
        failed_calls=sum(call.failed for call in calls),
        missing=tuple(sorted(wanted - handled)),
        out_of_order=tuple(out_of_order(_deliveries(calls))),
        broken_tenures=tuple(_broken_tenures(entries)),
        too_far_back=tuple(_too_far_back(entries, rows, suspended)),
    )


def _deliveries(calls: Iterable[Call]) -> list[Delivery]:
    """Everything that the handler saw, sorted by time."""
    return [
        Delivery(
            call.at,
            call.shard_id,
            record.checkpoint.sequence_number,
            record.checkpoint.sub_sequence_number,
            record.text.rpartition("/")[0],
            record.text,
        )
        for call in sorted(calls, key=lambda call: call.at)
        for record in call.records
    ]


def _broken_tenures(entries: Iterable[Entry]) -> list[str]:
    """`entries` in each process's own order."""
    wrong: list[str] = []
    done: dict[tuple[str, str], int] = {}
    starts: dict[str, Checkpoint] = {}
    for entry in entries:
        if isinstance(entry, Begun):
            starts[entry.tenure] = entry.checkpoint
        elif isinstance(entry, Call):
            wrong += _broken_call(entry, starts.get(entry.tenure), done)
    return wrong


def _broken_call(call: Call, start: Checkpoint | None, done: dict[tuple[str, str], int]) -> list[str]:
    """`done`: by tenure and key, the last number that is done; updated here."""
    if start is None:
        return [f"{call.tenure}: called before it had heard that it has the lease"]
    wrong: list[str] = []
    shown: dict[str, int] = {}
    for index, (checkpoint, text) in enumerate(call.records):
        key, number = text.rpartition("/")[0], int(text.rpartition("/")[2])
        before = shown.get(key, done.get((call.tenure, key)))
        if before is not None and number != before + 1:
            wrong.append(f"{call.tenure}: {text} after {key}/{before}")
        if checkpoint <= start:
            wrong.append(f"{call.tenure}: {text} at {checkpoint}, though it starts after {start}")
        shown[key] = number
        if index < call.done:
            done[call.tenure, key] = number
    return wrong


def _too_far_back(
    entries: Iterable[Entry], rows: Mapping[str, Sequence[Sighting]], suspended: Mapping[int, Sequence[Fault]]
) -> list[str]:
    """Tenures that begin before a checkpoint that had been in the row for a good while. A suspended process's are
    skipped: it may have acquired before that checkpoint and resumed after it."""
    wrong = []
    for entry in entries:
        if not isinstance(entry, Begun):
            continue
        since = entry.at - SETTLED
        if any(fault.at <= entry.at and fault.until >= since for fault in suspended.get(entry.pid, ())):
            continue
        known = [sighting.checkpoint for sighting in rows.get(entry.shard_id, ()) if sighting.at <= since]
        if known and entry.checkpoint < known[-1]:
            wrong.append(f"{entry.tenure}: begins after {entry.checkpoint}, the row said {known[-1]}")
    return wrong
