"""What the mutants have shown, as a page."""

from __future__ import annotations

from collections.abc import Sequence

from tests.mutants.trial import Outcome, Verdict

LEAST = 0.75
"""Of any sample. Twenty of them say no more than whether something has broken; the whole run is what the score is taken from."""


def enough(verdicts: Sequence[Verdict]) -> bool:
    return not verdicts or _share(verdicts) >= LEAST


def written(verdicts: Sequence[Verdict]) -> str:
    by_file: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        file = verdict.mutant.file
        by_file.setdefault(f"{file.parent.name}/{file.name}", []).append(verdict)
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
    return (
        f"{len(verdicts)} | {_share(verdicts):.0%} | {tests} | {asked.count(Outcome.NOTICED)} of {len(asked)}"
    )


def _share(verdicts: Sequence[Verdict]) -> float:
    return sum(each.is_noticed for each in verdicts) / len(verdicts)
