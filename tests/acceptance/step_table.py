"""All steps of a run, in their order: what each proves, and what it uses."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

from tests.acceptance import aws_answers, deployments, otlp, steps
from tests.acceptance.price import Use
from tests.acceptance.stage import Stage


class Step(NamedTuple):
    """promise: what holds if it passes, in words of the report."""

    act: Callable[[Stage], None]
    promise: str
    use: Use = Use()

    @property
    def name(self) -> str:
        return self.act.__name__.replace("_", " ")


STEPS: tuple[Step, ...] = (
    Step(
        steps.put_a_record_and_leave_it,
        "a shard is left idle while the others run",
        Use(shards=1, waits=True),
    ),
    Step(steps.deploy, "the stack deploys, and its check imports the handler", Use(consumers=1, shards=2)),
    Step(
        steps.records_through_a_split_and_a_merge,
        "every record comes, in order of its key, through resharding",
        Use(shards=3, records=1),
    ),
    Step(aws_answers.pages_of_shards, "ListShards in pages has every shard once"),
    Step(aws_answers.a_dry_run_of_a_read, "`sublet doctor` tells an allowed read without reading"),
    Step(aws_answers.figures_in_cloudwatch, "the functions' log lines become metrics"),
    Step(aws_answers.alarms_are_quiet, "every alarm has data to judge by, and a healthy consumer's are off"),
    Step(
        steps.a_record_over_1_mib,
        "a record over 1 MiB comes as it was put, in its place",
    ),
    Step(steps.a_worker_is_killed, "what a killed worker had in hand is handled again", Use(records=0.1)),
    Step(steps.redeploy_under_load, "a deployment under load loses nothing", Use(records=0.1)),
    Step(
        steps.a_stream_and_tables_under_a_key,
        "a stream and tables under a customer-managed key are read and written",
        Use(consumers=1, shards=1, keys=1),
    ),
    Step(
        steps.by_fan_out,
        "reading by push goes on through a split, in order",
        Use(consumers=1, shards=2, fan_out_shards=4),
    ),
    Step(
        steps.records_without_a_key,
        "records without a partition key come, aggregates of the KPL too",
        Use(consumers=1, on_demand=1),
    ),
    Step(
        steps.given_up_and_redriven,
        "a record that is given up goes to the destination, and `sublet redrive` brings it back",
        Use(consumers=1, shards=1),
    ),
    Step(deployments.by_the_deploy_command, "`sublet deploy` deploys from a command line", Use(consumers=1, shards=1)),
    Step(
        otlp.metrics_by_otlp,
        "CloudWatch takes metrics by OTLP, deltas as they are, and has each shard of a deployment",
    ),
    Step(
        deployments.without_the_cdk,
        "`sublet synth --plain` deploys by CloudFormation alone",
        Use(consumers=1, shards=1),
    ),
    Step(
        deployments.a_process_becomes_a_lambda,
        "a stack goes on where `sublet run` stopped, on its tables",
        Use(consumers=1, shards=2),
    ),
    Step(
        deployments.in_a_second_region,
        "a second region deploys beside the first",
        Use(consumers=1, shards=1),
    ),
    Step(
        deployments.a_stream_of_another_account,
        "a stream of another account is read",
        Use(consumers=1, shards=1),
    ),
    Step(
        steps.walk_the_idle_shard,
        "how many calls an idle shard takes to its tip",
    ),
)
"""All but the first stream is removed before the last step, which waits."""


def price(of: tuple[Step, ...], records: int, idle: timedelta) -> float:
    """US$, at most."""
    return sum(step.use.dollars(records, idle) for step in of)
