"""What an acceptance run removes, in an account (moto's) that has things of the same names: only what is its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from tests.acceptance import things
from tests.acceptance.belongings import TAG, Belongings
from tests.acceptance.leftovers import NamesTaken, check_names_are_free, remove_tagged, tagged
from tests.acceptance.outcomes import NotAsked, NotOffered
from tests.acceptance.run import Outcome, run
from tests.acceptance.stage import Idle, Plan, Stage
from tests.acceptance.step_table import STEPS, Step
from tests.acceptance.things import Bucket, Key, Queue, StackOfRun, Stream, Table

REGION = "us-east-1"
RUN = "orders"
KEY = {
    "KeySchema": [{"AttributeName": "name", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "name", "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
}


class Stacks:
    """CloudFormation as far as the run asks it. A stack has one log group, and a function whose own group Lambda
    creates again while the stack is deleted. (moto's needs packages that nothing else here does.)
    """

    def __init__(self, logs: Any) -> None:
        self.logs, self.tags = logs, dict[str, list[dict[str, str]]]()

    def create(self, name: str, of: str | None) -> None:
        self.tags[name] = [] if of is None else tags(of)
        self.logs.create_log_group(logGroupName=f"{name}-Log-1")

    def describe_stacks(self, **asked: str) -> dict[str, Any]:
        names = list(asked.values()) or list(self.tags)
        if missing := set(names) - set(self.tags):
            refusal = {"Error": {"Code": "ValidationError", "Message": f"Stack with id {missing} does not exist"}}
            raise ClientError(refusal, "DescribeStacks")  # type: ignore[arg-type]
        return {"Stacks": [{"StackName": n, "StackStatus": "CREATE_COMPLETE", "Tags": self.tags[n]} for n in names]}

    def list_stack_resources(self, **asked: str) -> dict[str, Any]:
        (stack,) = asked.values()
        made = [("AWS::Logs::LogGroup", f"{stack}-Log-1"), ("AWS::Lambda::Function", f"{stack}-Worker-1")]
        return {"StackResourceSummaries": [{"ResourceType": t, "PhysicalResourceId": name} for t, name in made]}

    def delete_stack(self, **asked: str) -> None:
        (stack,) = asked.values()
        del self.tags[stack]
        self.logs.delete_log_group(logGroupName=f"{stack}-Log-1")
        self.logs.create_log_group(logGroupName=f"/aws/lambda/{stack}-Worker-1")

    def get_paginator(self, operation: str) -> Any:
        class Pages:
            paginate = staticmethod(lambda **asked: [getattr(self, operation)(**asked)])

        return Pages

    def get_waiter(self, _: str) -> Any:
        class Waiter:
            wait = staticmethod(lambda **_: None)

        return Waiter


@dataclass
class MotoAws:
    environment: dict[str, str] = field(default_factory=dict)
    stacks: Stacks = field(init=False)

    def __post_init__(self) -> None:
        self.stacks = Stacks(self.client("logs"))

    def client(self, service: str) -> Any:
        if service == "cloudformation":
            return self.stacks
        create: Any = boto3.session.Session().client
        return create(service, region_name=REGION)


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[MotoAws]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setattr(things, "BETWEEN_LOOKS", 0)
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_KINESIS", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    with mock_aws():
        yield MotoAws()


def stage_of(aws: MotoAws, said: list[str] | None = None) -> Stage:
    report = (said if said is not None else []).append
    return Stage(aws, Plan(RUN, 100, timedelta(0), is_dry=False), Belongings(RUN, report), report)


def tags(of: str = RUN) -> list[dict[str, str]]:
    return [{"Key": TAG, "Value": of}]


def streams(aws: MotoAws) -> list[str]:
    return list(aws.client("kinesis").list_streams()["StreamNames"])


def tables(aws: MotoAws) -> list[str]:
    return list(aws.client("dynamodb").list_tables()["TableNames"])


def log_groups(aws: MotoAws) -> list[str]:
    return [each["logGroupName"] for each in aws.client("logs").describe_log_groups()["logGroups"]]


def test_things_of_the_runs_names_stay_when_creating_them_failed(aws: MotoAws) -> None:
    aws.client("kinesis").create_stream(StreamName="orders-main", ShardCount=1)
    for table in ("orders-main", "orders-main-ledger", "orders-main-sightings"):
        aws.client("dynamodb").create_table(TableName=table, **KEY)
    said: list[str] = []
    stage = stage_of(aws, said)
    with pytest.raises(Exception, match="orders-main"):
        stage.make_stream("main", ShardCount=2)
    with pytest.raises(Exception, match="ResourceInUse"):
        stage.make_table("main-ledger")
    stage.expect_stack("sublet-orders-main", "orders-main", "orders-main-sightings")

    assert stage.belongings.remove_all() == []
    assert streams(aws) == ["orders-main"]
    assert tables(aws) == ["orders-main", "orders-main-ledger", "orders-main-sightings"]
    assert "left alone, because this run did not create it: stream orders-main" in said


def test_stack_that_exists_is_not_deployed_over_nor_removed(aws: MotoAws) -> None:
    aws.stacks.create("sublet-orders-main", of=None)
    stage = stage_of(aws)
    with pytest.raises(FileExistsError, match="sublet-orders-main"):
        stage.expect_stack("sublet-orders-main")
    stage.belongings.tagged(StackOfRun(aws, "sublet-orders-main"))
    stage.belongings.remove_all()
    assert "sublet-orders-main" in aws.stacks.tags


def create_table_and_be_cut_off(stage: Stage, of: str) -> None:
    with stage.belongings.making(Table(stage.aws, "orders-cut")):
        stage.client("dynamodb").create_table(TableName="orders-cut", Tags=tags(of), **KEY)
        raise KeyboardInterrupt


def test_thing_whose_creation_was_cut_off_is_removed_by_its_tag(aws: MotoAws) -> None:
    stage = stage_of(aws)
    with pytest.raises(KeyboardInterrupt):
        create_table_and_be_cut_off(stage, RUN)
    assert stage.belongings.remove_all() == []
    assert tables(aws) == []


def test_another_runs_thing_stays_when_a_call_was_cut_off(aws: MotoAws) -> None:
    stage = stage_of(aws)
    with pytest.raises(KeyboardInterrupt):
        create_table_and_be_cut_off(stage, "orders-2")
    stage.belongings.remove_all()
    assert tables(aws) == ["orders-cut"]


def test_created_thing_is_removed_although_its_tag_was_taken_away(aws: MotoAws) -> None:
    stage = stage_of(aws)
    bucket = stage.make_bucket("files")
    aws.client("s3").put_object(Bucket=bucket, Key="one", Body=b"1")
    aws.client("s3").delete_bucket_tagging(Bucket=bucket)
    assert stage.belongings.remove_all() == []
    assert aws.client("s3").list_buckets()["Buckets"] == []


def test_log_groups_go_with_their_stack_by_their_whole_names(aws: MotoAws) -> None:
    neighbours = ["/aws/lambda/webapp-sublet-orders-main-api", "/ecs/orders-main", "sublet-orders-main-Log-11"]
    for group in neighbours:
        aws.client("logs").create_log_group(logGroupName=group)
    aws.stacks.create("sublet-orders-main", of=RUN)
    stage = stage_of(aws)
    stage.belongings.tagged(StackOfRun(aws, "sublet-orders-main"))
    assert "sublet-orders-main-Log-1" in log_groups(aws)

    assert stage.belongings.remove_all() == []
    assert sorted(log_groups(aws)) == sorted(neighbours)


class LateLogs:
    """A last invocation creates its log group once more, after that has been deleted."""

    def __init__(self, logs: Any) -> None:
        self.logs, self.late = logs, 1

    def delete_log_group(self, **asked: str) -> Any:
        reply = self.logs.delete_log_group(**asked)
        if self.late:
            self.late -= 1
            self.logs.create_log_group(**asked)
        return reply


class LateAws(MotoAws):
    def client(self, service: str) -> Any:
        found = super().client(service)
        return found if service != "logs" or not hasattr(self, "stacks") else self.logs

    def __post_init__(self) -> None:
        self.logs = LateLogs(MotoAws.client(self, "logs"))
        super().__post_init__()


@pytest.mark.usefixtures("aws")
def test_log_group_that_a_last_invocation_creates_again_is_removed() -> None:
    late = LateAws()
    late.stacks.create("sublet-orders-main", of=RUN)
    StackOfRun(late, "sublet-orders-main").remove()
    assert late.logs.late == 0
    assert log_groups(MotoAws()) == []


def test_every_kind_of_created_thing_is_removed(aws: MotoAws) -> None:
    stage = stage_of(aws)
    stage.make_stream("main", ShardCount=1)
    stage.make_table("main-ledger")
    stage.make_queue("aside")
    stage.make_bucket("files")
    key = stage.make_key()
    assert stage.belongings.remove_all() == []
    assert streams(aws) == tables(aws) == aws.client("s3").list_buckets()["Buckets"] == []
    assert "QueueUrls" not in aws.client("sqs").list_queues()
    assert aws.client("kms").describe_key(KeyId=key)["KeyMetadata"]["KeyState"] == "PendingDeletion"


@pytest.mark.parametrize(
    ("what", "make"),
    [
        ("stream orders-x", lambda aws: aws.client("kinesis").create_stream(StreamName="orders-x", ShardCount=1)),
        ("table orders-x", lambda aws: aws.client("dynamodb").create_table(TableName="orders-x", **KEY)),
        ("queue orders-x", lambda aws: aws.client("sqs").create_queue(QueueName="orders-x")),
        ("bucket orders-x", lambda aws: aws.client("s3").create_bucket(Bucket="orders-x")),
        (
            "log group orders-x-lease-workers",
            lambda aws: aws.client("logs").create_log_group(
                logGroupName="/aws/vendedlogs/states/orders-x-lease-workers"
            ),
        ),
        (
            "state machine orders-x-lease-workers",
            lambda aws: aws.client("stepfunctions").create_state_machine(
                name="orders-x-lease-workers",
                definition='{"StartAt": "A", "States": {"A": {"Type": "Pass", "End": true}}}',
                roleArn="arn:aws:iam::123456789012:role/states",
            ),
        ),
        ("stack sublet-orders-x", lambda aws: aws.stacks.create("sublet-orders-x", of=None)),
        ("stack orders-x", lambda aws: aws.stacks.create("orders-x", of=None)),
    ],
)
def test_prefix_is_refused_when_something_has_such_a_name(aws: MotoAws, what: str, make: Any) -> None:
    make(aws)
    with pytest.raises(NamesTaken, match=what):
        check_names_are_free(aws, RUN)
    check_names_are_free(aws, "order")


def test_tag_finds_what_a_killed_run_left_and_nothing_else(aws: MotoAws) -> None:
    killed, other = stage_of(aws), stage_of(aws)
    other.belongings.run, other.plan = "orders-2", Plan("orders-2", 100, timedelta(0), is_dry=False)
    for stage in (killed, other):
        stage.make_stream("main", ShardCount=1)
        aws.client("kinesis").add_tags_to_stream(StreamName=stage.name("main"), Tags=stage.tags)  # moto drops them
        stage.make_table("main-ledger")
        stage.make_queue("aside")
        stage.make_bucket("files")
        stage.make_key()
    aws.stacks.create("sublet-orders-main", of=RUN)
    aws.client("kinesis").create_stream(StreamName="orders-company", ShardCount=1)

    found = tagged(aws, RUN)
    assert {type(thing) for thing in found} == {StackOfRun, Stream, Table, Queue, Bucket, Key}
    assert isinstance(found[0], StackOfRun)
    assert remove_tagged(found, Belongings(RUN, lambda _: None)) == []
    assert tagged(aws, RUN) == []
    assert streams(aws) == ["orders-2-main", "orders-company"]
    assert tables(aws) == ["orders-2-main-ledger"]
    assert len(tagged(aws, "orders-2")) == 5


def test_all_but_the_idle_stream_is_removed_before_the_last_step(aws: MotoAws) -> None:
    seen: list[list[str]] = []

    def first(stage: Stage) -> None:
        arn = stage.make_stream("idle", ShardCount=1)
        stage.idle = Idle(arn, "shardId-000000000000", "1", 0, Stream(aws, "orders-idle").label)
        stage.make_stream("main", ShardCount=1)

    def last(_: Stage) -> None:
        seen.append(streams(aws))

    verdict = run(stage_of(aws), (Step(first, "made"), Step(last, "seen")))
    assert verdict.is_good
    assert seen == [["orders-idle"]]
    assert streams(aws) == []


def test_report_names_what_could_not_be_removed_early(aws: MotoAws) -> None:
    class Stubborn:
        label = "stubborn"

        def tags(self) -> dict[str, str]:
            return {TAG: RUN}

        def remove(self) -> None:
            raise PermissionError("not yours")

    def first(stage: Stage) -> None:
        arn = stage.make_stream("idle", ShardCount=1)
        stage.idle = Idle(arn, "shardId-000000000000", "1", 0, Stream(aws, "orders-idle").label)
        stage.belongings.tagged(Stubborn())

    verdict = run(stage_of(aws), (Step(first, "made"), Step(lambda _: None, "waits")))
    assert verdict.left == ("stubborn: PermissionError: not yours",)
    assert not verdict.is_good


@pytest.mark.parametrize(
    ("raised", "outcome", "is_good"),
    [
        (NotOffered("no"), Outcome.NOT_OFFERED, True),
        (NotAsked("give it"), Outcome.NOT_ASKED, True),
        (ValueError("wrong"), Outcome.FAILED, False),
        (KeyboardInterrupt(), Outcome.INTERRUPTED, False),
    ],
)
def test_outcome_says_how_a_step_ended(aws: MotoAws, raised: BaseException, outcome: Outcome, is_good: bool) -> None:
    def step(_: Stage) -> None:
        raise raised

    verdict = run(stage_of(aws), (Step(step, "it"), Step(lambda _: None, "goes on")))
    assert verdict.results[0].outcome is outcome
    assert verdict.is_good is is_good
    assert len(verdict.results) == (1 if outcome is Outcome.INTERRUPTED else 2)


def test_each_step_has_a_promise_and_a_price() -> None:
    assert len({step.name for step in STEPS}) == len(STEPS)
    for step in STEPS:
        assert step.promise
        assert step.use.dollars(20_000, timedelta(hours=1)) >= 0
        uses = step.use.consumers or step.use.shards or step.use.records
        assert bool(step.use.dollars(20_000, timedelta(hours=1))) is bool(uses)
