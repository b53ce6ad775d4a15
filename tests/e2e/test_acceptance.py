"""`make aws-acceptance`, on the embedded AWS: every step passes or is not offered there, and nothing is left."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from infra.local import EmbeddedAws, embedded_aws
from tests.acceptance.__main__ import main
from tests.acceptance.belongings import Belongings
from tests.acceptance.price import estimate
from tests.acceptance.run import Outcome, run
from tests.acceptance.stage import Plan, Stage
from tests.acceptance.steps import deploy, put_a_record_and_leave_it
from tests.exploring import explores

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

PLAN = Plan("sublet-acceptance-test", 300, timedelta(0), is_dry=True)


@pytest.mark.slow
@explores
def test_a_dry_run_passes_and_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.md"
    ended = main(["--dry-run", "--records", "900", "--idle-minutes", "0", "--report", str(report)])
    assert ended == 0, capsys.readouterr().out
    told = report.read_text()
    assert "| FAILED |" not in told
    assert told.count("| passed |") >= 7
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
        verdict = run(aws, PLAN, lambda _: None, (put_a_record_and_leave_it, deploy, interrupted, never))
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


def test_failed_removal_of_one_resource_does_not_keep_the_others() -> None:
    removed: list[str] = []

    def refuses() -> None:
        raise PermissionError("not yours")

    belongings = Belongings(lambda _: None)
    belongings.enter("first", lambda: removed.append("first"))
    belongings.enter("second", refuses)
    belongings.enter("third", lambda: removed.append("third"))

    assert belongings.remove_all() == ["second: PermissionError: not yours"]
    assert removed == ["third", "first"]


def test_estimated_price_exceeds_its_lines_and_grows_with_idle_time() -> None:
    *lines, total = estimate(20_000, timedelta(hours=1))
    assert sum(line.dollars for line in lines) < total.dollars < 10
    assert estimate(20_000, timedelta(hours=2))[-1].dollars > total.dollars
