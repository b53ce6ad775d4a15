"""Judges what producers put: nothing lost, each key in order, and only what a lost answer had in it more than once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.chaos.put_programs import PutRecords

EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Put:
    """The verdict. `again`: deliveries beyond the first of each record; `wrong` has to be empty."""

    seed: int
    seconds: float
    put: int
    acknowledged: int
    given_up: int
    delivered: int
    again: int
    calls: int
    retried: int
    sent_again: int
    stream_records: int
    requests: int
    hit: Counter[str]
    reshards: Counter[str]
    refused: int
    wrong: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        rate = self.put / self.seconds
        yield f"Producers under chaos: seed {self.seed}, {self.seconds / 60:.1f} minutes of faults"
        yield (
            f"{self.put:,} records put, {rate:,.0f} a second; {self.acknowledged:,} acknowledged, "
            f"{self.given_up:,} given up"
        )
        yield f"{self.delivered:,} distinct records delivered, {self.again:,} deliveries more, all of lost answers"
        yield (
            f"{self.calls:,} calls, {self.stream_records:,} stream records, {self.retried:,} put again after a "
            f"refusal, {self.sent_again:,} user records sent again after a reshard"
        )
        yield f"{sum(self.hit.values()):,} of {self.requests:,} requests hit: {_counts(self.hit)}"
        yield f"{self.refused:,} stream records refused one by one"
        yield f"reshards: {_counts(self.reshards)}"
        yield from self.wrong[:EXAMPLES]
        yield "All promises kept" if not self.wrong else f"{len(self.wrong):,} things are wrong"


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in sorted(counts.items())) or "none"


def judge(known: PutRecords, found: Iterable[bytes], unanswered: set[bytes]) -> tuple[Counter[bytes], list[str]]:
    """How often each record was delivered, and what is wrong."""
    times, before, highest, wrong = Counter[bytes](), dict[str, int](), Counter[str](), list[str]()
    for data in found:
        key, text, _ = data.decode().split(":")
        number = int(text)
        times[data] += 1
        if number > before.get(key, 0) + 1 and _all_acknowledged(known, key, before.get(key, 0), number):
            wrong.append(f"{key}: {number} comes after {before.get(key, 0)}")
        if times[data] > 1 and data not in unanswered:
            wrong.append(f"{key}: {number} comes again, though no answer was lost")
        before[key] = number
        highest[key] = max(highest[key], number)
    settled = len(known.acknowledged) + len(known.given_up)
    if settled != known.put.total():
        wrong.append(f"it is not known what came of {known.put.total() - settled:,} records")
    wrong += [f"lost: {data[:40]!r}" for data in sorted(known.acknowledged - times.keys())]
    wrong += [f"given up: {data[:40]!r}: {why}" for data, why in sorted(known.given_up.items())]
    return times, wrong


def _all_acknowledged(known: PutRecords, key: str, after: int, before: int) -> bool:
    """A gap is allowed where a record was given up."""
    gone = {data.split(b":", 2)[1] for data in known.given_up if data.startswith(f"{key}:".encode())}
    return not any(str(number).encode() in gone for number in range(after + 1, before))
