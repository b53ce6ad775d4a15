"""`make aws-acceptance`, on the embedded AWS: every step passes or is not offered there, and nothing is left."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from infra.local import EmbeddedAws, embedded_aws
from tests.acceptance.__main__ import main
from tests.acceptance.belongings import Belongings
from tests.acceptance.run import Outcome, run
from tests.acceptance.stage import Plan, Stage
from tests.acceptance.step_table import STEPS, Step, price
from tests.acceptance.steps import deploy, put_a_record_and_leave_it
from tests.exploring import explores

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

PLAN = Plan("sublet-acceptance-test", 300, timedelta(0), is_dry=True)


@pytest.mark.slow
@explores
def test_a_dry_run_passes_and_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.md"
    ended = main(["--dry-run", "--records", "900", "--idle-minutes", "0", "--report", str(report)])
    assert ended == 0, capsys.readouterr().out
    told = report.read_text()
    assert "| FAILED |" not in told
    assert told.count("| passed |") >= 10
    assert told.count("| not offered here |") >= 4
    assert all(f"| {step.promise} |" in told for step in STEPS)
    assert "0 missing, 0 out of order" in told
    assert "Nothing." in told
    assert "in all, at most" in capsys.readouterr().out


@pytest.mark.slow
@explores
def test_ctrl_c_in_mid_deployment_removes_all_that_was_made() -> None:
    def interrupted(stage: Stage) -> None:
        stage.make_stream("second", ShardCount=1)
        raise KeyboardInterrupt

    def never(stage: Stage) -> None:
        raise AssertionError("the run was to end before this")

    with embedded_aws() as aws:
        stage = Stage(aws, PLAN, Belongings(PLAN.prefix, lambda _: None), lambda _: None)
        steps = (put_a_record_and_leave_it, deploy, interrupted, never)
        verdict = run(stage, tuple(Step(act, act.__name__) for act in steps))
        assert [result.outcome for result in verdict.results] == [
            *(Outcome.PASSED, Outcome.PASSED),
            Outcome.INTERRUPTED,
        ]
        assert verdict.left == ()
        assert _made_by_the_run(aws) == []


def _made_by_the_run(aws: EmbeddedAws) -> list[str]:
    stacks = aws.client("cloudformation").list_stacks(StackStatusFilter=["CREATE_COMPLETE", "UPDATE_COMPLETE"])
    names = [
        *aws.client("kinesis").list_streams()["StreamNames"],
        *aws.client("dynamodb").list_tables()["TableNames"],
        *(group["logGroupName"] for group in aws.client("logs").describe_log_groups()["logGroups"]),
        *(function["FunctionName"] for function in aws.client("lambda").list_functions()["Functions"]),
        *(stack["StackName"] for stack in stacks["StackSummaries"]),
    ]
    return [name for name in names if PLAN.prefix in name]


def test_price_in_all_is_that_of_its_steps_and_grows_with_idle_time() -> None:
    hour = timedelta(hours=1)
    total = price(STEPS, 20_000, hour)
    assert total == pytest.approx(sum(step.use.dollars(20_000, hour) for step in STEPS))
    assert 1 < total < 20
    assert price(STEPS, 20_000, 2 * hour) > total
