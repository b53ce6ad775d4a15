"""The proof: what the handler and Spark have stored together, compared with the data set.

Each partition key's events have running numbers. Those that the fleet had handled when Spark took over, those in
Spark's table, and those that the fleet has handled since must, in this order, be 1, 2, 3 ... to the last. A number in
none of the three is missing; one in two of them, or twice in one, is an overlap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from demo.flights import Figures
from demo.proof import Expected, stored_figures
from demo.snapshot import Part
from demo.spark.reader import SparkStored
from examples.flights.flights import ShardTotals

Run = tuple[int, int]
"""Running numbers of one key, first to last."""


@dataclass(frozen=True, slots=True)
class Proof:
    expected: int
    parts: tuple[Part, ...]
    """The parts of the runtimes, in turn."""
    missing: int
    overlap: int
    """Events that were handled by both runtimes, or more than once by one."""
    out_of_turn: int
    """Keys with a later event handled before an earlier one."""
    rejected: int
    """Rows that the pipeline could not parse; the data set has none."""
    figures: Mapping[str, Figures]
    """Per carrier, from both stores together."""
    by_spark: Mapping[str, int]
    """Flights per carrier in Spark's table of figures."""
    differing: tuple[str, ...]
    """Carriers whose figures are not the data set's."""

    @property
    def handled(self) -> int:
        return sum(part.events for part in self.parts)

    @property
    def holds(self) -> bool:
        """True if each of the three has handled something, and together they have handled everything once."""
        faults = self.missing or self.overlap or self.out_of_turn or self.rejected or self.differing
        return not faults and self.handled == self.expected and all(part.events for part in self.parts)


def prove(
    first: Sequence[ShardTotals],
    last: Sequence[ShardTotals],
    spark: SparkStored,
    expected: Expected,
    figures: Mapping[str, Figures],
) -> Proof:
    """`first`, `last`: the handler's rows when Spark had taken over, and at the end."""
    before = runs_by_key(first)
    turns = (before, _runs(spark.keys), runs_since(first, last))
    verdicts = [_judge(count, [turn.get(key, []) for turn in turns]) for key, count in expected.items()]
    by_lambda = sum(row.events for row in first)
    together = _together(stored_figures(last), {c: Figures(*sums) for c, sums in spark.carriers.items()})
    return Proof(
        expected=sum(expected.values()),
        parts=(
            Part("Lambda", by_lambda),
            Part("Spark", spark.raw),
            Part("Lambda", sum(row.events for row in last) - by_lambda),
        ),
        missing=sum(missing for missing, _, _ in verdicts),
        overlap=sum(overlap for _, overlap, _ in verdicts),
        out_of_turn=sum(out_of_turn for _, _, out_of_turn in verdicts),
        rejected=spark.rejected,
        figures=together,
        by_spark={carrier: sums[0] for carrier, sums in spark.carriers.items()},
        differing=tuple(sorted(c for c in together.keys() | figures.keys() if together.get(c) != figures.get(c))),
    )


def runs_by_key(rows: Iterable[ShardTotals]) -> dict[str, list[Run]]:
    """Returns the sorted runs of each key, over all shards: a run is what the handler saw consecutively in one
    shard.
    """
    return runs_since([], rows)


def runs_since(first: Iterable[ShardTotals], last: Iterable[ShardTotals]) -> dict[str, list[Run]]:
    """Returns what was added. A row only grows: its last run by a number, or by another run."""
    earlier = {row.shard_id: row.keys for row in first}
    added: dict[str, list[Run]] = {}
    for row in last:
        for key, runs in row.keys.items():
            known = earlier.get(row.shard_id, {}).get(key, [])
            for index, (begin, end) in enumerate(runs):
                fresh = known[index][1] + 1 if index < len(known) else begin
                if fresh <= end:
                    added.setdefault(key, []).append((fresh, end))
    return {key: sorted(runs) for key, runs in added.items()}


def _runs(keys: Mapping[str, list[list[int]]]) -> dict[str, list[Run]]:
    return {key: [(first, last) for first, last in runs] for key, runs in keys.items()}


def _judge(count: int, turns: Sequence[Sequence[Run]]) -> tuple[int, int, bool]:
    """Judges one key, whose numbers are 1 to `count`: how many are missing, how many repeated, and whether any came out
    of turn.
    """
    runs = [run for turn in turns for run in turn]
    times = Counter(number for first, last in runs for number in range(first, last + 1))
    missing = sum(number not in times for number in range(1, count + 1))
    out_of_turn = any(after[0] <= before[1] for before, after in pairwise(runs))
    return missing, sum(times.values()) - len(times), out_of_turn


def _together(*stores: Mapping[str, Figures]) -> dict[str, Figures]:
    """Added up, carrier by carrier."""
    carriers = sorted({carrier for store in stores for carrier in store})
    return {carrier: _sum([store[carrier] for store in stores if carrier in store]) for carrier in carriers}


def _sum(figures: Sequence[Figures]) -> Figures:
    return Figures(
        flights=sum(each.flights for each in figures),
        departed=sum(each.departed for each in figures),
        departure_delay=sum(each.departure_delay for each in figures),
        arrived=sum(each.arrived for each in figures),
        arrival_delay=sum(each.arrival_delay for each in figures),
    )
