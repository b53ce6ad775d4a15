"""The mutants' results, as a page."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import comb

from tests.mutants.mutate import place
from tests.mutants.trial import Outcome, Verdict

LEAST = Fraction(85, 100)
"""Of all mutants (docs/reliability.md has the score)."""
LUCK = Fraction(1, 10_000)
"""The probability of refusing a sample that was only drawn badly: a run in ten thousand."""


def enough(verdicts: Sequence[Verdict]) -> bool:
    """True if this many unnoticed mutants can still be bad luck: of 15 at least 7 are noticed, of 1,000 81%."""
    return _chance_of_at_most(sum(each.is_noticed for each in verdicts), len(verdicts)) > LUCK


def _chance_of_at_most(noticed: int, of: int) -> Fraction:
    """The probability of no more than these, if each is noticed with the probability LEAST."""
    return sum((comb(of, n) * LEAST**n * (1 - LEAST) ** (of - n) for n in range(noticed + 1)), Fraction(0))


def written(verdicts: Sequence[Verdict]) -> str:
    by_file: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        file = verdict.mutant.file
        by_file.setdefault(str(place(file)), []).append(verdict)
    lines = [
        "# Mutants",
        "",
        "| | mutants | noticed | by the tests | by the simulation, of those it was asked about |",
        "|---|---|---|---|---|",
    ]
    rows = [*sorted(by_file.items()), ("all", list(verdicts))]
    lines += [f"| {name} | {_counts(of)} |" for name, of in rows if of]
    lines += ["", "## Survivors", ""]
    lines += [f"* {verdict.mutant.name}" for verdict in verdicts if not verdict.is_noticed]
    return "\n".join([*lines, ""])


def _counts(verdicts: Sequence[Verdict]) -> str:
    asked = [each.simulation for each in verdicts if each.simulation is not Outcome.NOT_ASKED]
    tests = sum(each.tests is Outcome.NOTICED for each in verdicts)
    return f"{len(verdicts)} | {_share(verdicts):.0%} | {tests} | {asked.count(Outcome.NOTICED)} of {len(asked)}"


def _share(verdicts: Sequence[Verdict]) -> float:
    return sum(each.is_noticed for each in verdicts) / len(verdicts)
