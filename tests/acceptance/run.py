"""Runs all steps, and always removes everything that they created."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum

from infra.local.deploy import AwsToDeployTo
from tests.acceptance.belongings import Belongings
from tests.acceptance.stage import Plan, Stage
from tests.acceptance.steps import STEPS, NotOffered

Step = Callable[[Stage], None]


class Outcome(Enum):
    PASSED = "passed"
    FAILED = "FAILED"
    NOT_OFFERED = "not offered here"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Result:
    name: str
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
        return not self.left and all(result.outcome in (Outcome.PASSED, Outcome.NOT_OFFERED) for result in self.results)


def run(aws: AwsToDeployTo, plan: Plan, report: Callable[[str], None], steps: Sequence[Step] = STEPS) -> Verdict:
    """A step that fails does not prevent the next one; Ctrl-C does."""
    stage = Stage(aws, plan, Belongings(report), report)
    results: list[Result] = []
    try:
        for step in steps:
            result = _one(stage, step)
            results.append(result)
            report(f"{result.outcome.value}: {result.name} ({result.took.total_seconds():.0f} s)")
            if result.outcome is Outcome.INTERRUPTED:
                break
    finally:
        left = stage.belongings.remove_all()
    return Verdict(tuple(results), tuple(left))


def _one(stage: Stage, step: Step) -> Result:
    name = step.__name__.replace("_", " ")
    stage.report(f"==> {name}")
    stage.facts, began, outcome = {}, time.monotonic(), Outcome.PASSED
    try:
        step(stage)
    except NotOffered as problem:
        outcome = Outcome.NOT_OFFERED
        stage.facts["why"] = str(problem)
    except KeyboardInterrupt:
        outcome = Outcome.INTERRUPTED
    except Exception as problem:  # noqa: BLE001 - the report has it
        outcome = Outcome.FAILED
        stage.facts["problem"] = f"{type(problem).__name__}: {problem}"
    return Result(name, outcome, timedelta(seconds=time.monotonic() - began), stage.facts)
