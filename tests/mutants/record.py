"""Records each mutant's verdict as a line as soon as it is known: an interrupted run loses nothing, and the next one
continues.

A verdict is valid while the mutant's file is unchanged. Survivors are tested again: there may be a new test.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from tests.mutants.mutate import Mutant
from tests.mutants.trial import Outcome, Verdict


@dataclass(frozen=True, slots=True)
class Record:
    """A file to which several processes may append."""

    path: Path

    def note(self, verdict: Verdict) -> None:
        fields = (_identity(verdict.mutant), verdict.tests, verdict.simulation, verdict.mutant.name)
        with self.path.open("a") as lines:
            lines.write("\t".join(fields) + "\n")

    def verdicts(self, mutants: Iterable[Mutant]) -> list[Verdict]:
        """The last verdict of each mutant that has one."""
        said = self._said()
        return [Verdict(mutant, *said[identity]) for mutant in mutants if (identity := _identity(mutant)) in said]

    def _said(self) -> dict[str, tuple[Outcome, Outcome]]:
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        fields = (line.split("\t") for line in lines)
        return {identity: (Outcome(tests), Outcome(simulation)) for identity, tests, simulation, _ in fields}


def _identity(mutant: Mutant) -> str:
    """Its number in its file's current version."""
    return f"{_digest(mutant.file)} {mutant.number}"


@cache
def _digest(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest()[:16]
