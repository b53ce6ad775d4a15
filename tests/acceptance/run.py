"""Runs all steps, and always removes everything that they created."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum

from tests.acceptance.outcomes import NotAsked, NotOffered
from tests.acceptance.stage import Stage
from tests.acceptance.step_table import STEPS, Step


class Outcome(Enum):
    PASSED = "passed"
    FAILED = "FAILED"
    NOT_OFFERED = "not offered here"
    NOT_ASKED = "not asked for"
    INTERRUPTED = "interrupted"


FINE = (Outcome.PASSED, Outcome.NOT_OFFERED, Outcome.NOT_ASKED)


@dataclass(frozen=True, slots=True)
class Result:
    step: Step
    outcome: Outcome
    took: timedelta
    facts: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    """left: what could not be removed."""

    results: tuple[Result, ...]
    left: tuple[str, ...]

    @property
    def is_good(self) -> bool:
        return not self.left and all(result.outcome in FINE for result in self.results)


def run(stage: Stage, steps: Sequence[Step] = STEPS) -> Verdict:
    """A step that fails does not prevent the next one; Ctrl-C does. Before the last step, which waits for the idle
    shard, all but its stream is removed.
    """
    results: list[Result] = []
    left: list[str] = []
    try:
        for step in steps:
            if step is steps[-1] and stage.idle is not None:
                left += stage.belongings.remove_all(but=stage.idle.label)
            result = _one(stage, step)
            results.append(result)
            stage.report(f"{result.outcome.value}: {step.name} ({result.took.total_seconds():.0f} s) {result.facts}")
            if result.outcome is Outcome.INTERRUPTED:
                break
    finally:
        left += stage.belongings.remove_all()
    return Verdict(tuple(results), tuple(left))


def _one(stage: Stage, step: Step) -> Result:
    stage.report(f"==> {step.name}")
    stage.facts, began, outcome = {}, time.monotonic(), Outcome.PASSED
    try:
        step.act(stage)
    except NotOffered as problem:
        outcome = Outcome.NOT_OFFERED
        stage.facts["why"] = str(problem)
    except NotAsked as problem:
        outcome = Outcome.NOT_ASKED
        stage.facts["why"] = str(problem)
    except KeyboardInterrupt:
        outcome = Outcome.INTERRUPTED
    except Exception as problem:  # noqa: BLE001 - the report has it
        outcome = Outcome.FAILED
        stage.facts["problem"] = f"{type(problem).__name__}: {problem}"
    return Result(step, outcome, timedelta(seconds=time.monotonic() - began), stage.facts)
