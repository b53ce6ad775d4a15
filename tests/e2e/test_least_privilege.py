"""Each role with its own permissions and everything else denied: none of its calls is refused, and it uses every
permission."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import boto3
import pytest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from sublet.aws.set_aside.failure_destinations import SqsDestination
from sublet_cdk.failure_destination import REDRIVES

from docs.tables import process_policy
from infra.local import EmbeddedAws
from infra.local import embedded_aws as start_embedded_aws
from infra.local.embedded import ACCOUNT, REGION
from tests.e2e.deliveries import Recorder, wait_until
from tests.e2e.fleet import Fleet, deployed
from tests.e2e.processes import running
from tests.e2e.test_giving_up import GIVES_UP, HANDLER, POISON, Destination, environment_of
from tests.e2e.test_signed_only import send
from tests.exploring import explores

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

KEYS = [f"key-{n}" for n in range(20)]
QUEUE = f"arn:aws:sqs:{REGION}:{ACCOUNT}:given-up"
TRUST = {
    "Statement": [{"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": "sts:AssumeRole"}]
}

BY_LAMBDA = {"logs:CreateLogStream", "logs:PutLogEvents"}
UNUSED = {
    "LeaseManager": BY_LAMBDA
    | {"sqs:SendMessage"}  # Lambda's, for ticks that fail
    | {"kinesis:GetRecords", "kinesis:GetShardIterator"},  # of unread shards
    "LeaseWorker": BY_LAMBDA
    | {"kinesis:DescribeStreamSummary"}  # where an aggregate is out of its shard's range
    | {"kinesis:ListShards", "dynamodb:PutItem"}  # where a shard ends
    | {"dynamodb:GetItem"},  # after a crash
}
"""Permissions that a role has for cases outside this story."""


class Judged(NamedTuple):
    caller: str
    action: str
    resource: str
    is_allowed: bool


@pytest.fixture(scope="module")
def aws() -> Iterator[EmbeddedAws]:
    """Separate, because what is deployed here goes on ticking until it ends."""
    with start_embedded_aws() as aws:
        yield aws


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the handler and the tests communicate."""
    return tmp_path_factory.mktemp("recorder")


@pytest.fixture(scope="module")
def fleet(aws: EmbeddedAws, place: Path) -> Iterator[Fleet]:
    aws.client("sqs").create_queue(QueueName="given-up")
    with deployed(aws, "least", place, **GIVES_UP, batch_size="5", on_failure=QUEUE) as fleet:
        yield fleet


@explores
def test_a_tick_a_window_that_sets_aside_and_a_redrive(
    aws: EmbeddedAws, fleet: Fleet, place: Path, tmp_path: Path
) -> None:
    destination = Destination(QUEUE, SqsDestination(lambda: aws.client("sqs"), QUEUE, long_poll=0), copies=1)
    (place / "poison").write_text(POISON)
    fleet.produce(KEYS)
    fleet.tick()
    wait_until(lambda: bool(destination.kept(fleet)), 60, lambda: "nothing was set aside")
    fleet.wait_until_free()
    (place / "poison").unlink()
    keys = keys_of_a_role(aws, "redrive", [(REDRIVES["sqs"], QUEUE)])
    environment = {**environment_of(fleet, place, **HANDLER), **keys}
    with running(environment, tmp_path, "-m", "sublet", "redrive", "--from", QUEUE) as process:
        assert process.wait(60) == 0, (tmp_path / "log").read_text()
    fleet.recorder.wait_for(set(fleet.put), 30)
    assert not destination.kept(fleet)
    found = judged(aws)
    assert [each for each in found if not each.is_allowed] == []
    assert actions(found, "redrive") == set(REDRIVES["sqs"])
    for name, unused in UNUSED.items():
        assert allowed(aws, name) - actions(found, name) <= unused, name


def test_a_process_by_the_policy_of_the_documents(aws: EmbeddedAws, tmp_path: Path) -> None:
    """It creates its tables, and finds the stream's ARN by its name."""
    kinesis = aws.client("kinesis")
    kinesis.create_stream(StreamName="orders", ShardCount=2)
    kinesis.get_waiter("stream_exists").wait(StreamName="orders", WaiterConfig={"Delay": 1})
    fleet = Fleet(aws, "orders", {"LeaseTable": "orders-audit"}, Recorder(tmp_path))
    fleet.produce(KEYS)
    text = process_policy().removeprefix("```json").removesuffix("```")
    policy = json.loads(text.replace("eu-west-1", REGION).replace("123456789012", ACCOUNT))
    statements = [(each["Action"], each["Resource"]) for each in policy["Statement"]]
    environment = environment_of(fleet, tmp_path, **HANDLER, failover_time="3s", heartbeat_interval="1s")
    keys = keys_of_a_role(aws, "process", statements)
    for _ in range(2):  # the second time the tables are there
        with running({**environment, **keys}, tmp_path, "-m", "sublet", "run") as process:
            fleet.recorder.wait_for(set(fleet.put), 60)
            process.terminate()
            assert process.wait(60) == 0, (tmp_path / "log").read_text()
        fleet.produce(KEYS)
    found = [each for each in judged(aws) if role_in(each) == "process"]
    denied = {(each.action, each.resource.rpartition("/")[2]) for each in found if not each.is_allowed}
    assert denied == {("dynamodb:Scan", "orders-audit-WorkerMetricStats")}, "of a KCL, if there is one"
    assert ("dynamodb:GetItem", "orders-audit-sightings") in {
        (each.action, each.resource.rpartition("/")[2]) for each in found
    }


def test_kinesis_denies_calls_that_no_policy_allows(aws: EmbeddedAws) -> None:
    for stream in ("mine", "theirs"):
        aws.client("kinesis").create_stream(StreamName=stream, ShardCount=1)
        aws.client("kinesis").get_waiter("stream_exists").wait(StreamName=stream, WaiterConfig={"Delay": 1})
    arn = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/mine"
    reads = ["kinesis:GetShardIterator", "kinesis:GetRecords", "kinesis:ListShards"]
    keys = keys_of_a_role(aws, "reader", [(reads, arn)])
    session: Any = boto3.session.Session(
        keys["AWS_ACCESS_KEY_ID"], keys["AWS_SECRET_ACCESS_KEY"], keys["AWS_SESSION_TOKEN"]
    )
    client = session.client("kinesis", endpoint_url=aws.environment["AWS_ENDPOINT_URL_KINESIS"], region_name=REGION)
    (shard,) = client.list_shards(StreamName="mine")["Shards"]
    place = {"ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
    iterator = client.get_shard_iterator(StreamARN=arn, **place)["ShardIterator"]
    following = client.get_records(ShardIterator=iterator)["NextShardIterator"]
    client.get_records(ShardIterator=following)  # its stream is known by the iterator alone
    calls: list[Callable[[], object]] = [
        lambda: client.list_shards(StreamName="theirs"),
        lambda: client.describe_stream_summary(StreamARN=arn),
        lambda: client.put_record(StreamARN=arn, PartitionKey="a", Data=b"a"),
        lambda: client.get_records(ShardIterator="another's"),
    ]
    for refused in calls:
        with pytest.raises(ClientError, match=r"AccessDeniedException.*not authorized to perform: kinesis:"):
            refused()


def keys_of_a_role(aws: EmbeddedAws, name: str, statements: list[tuple[Any, Any]]) -> Mapping[str, str]:
    """A new role with only these permissions; returns keys of a session of it."""
    iam = aws.client("iam")
    role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(TRUST))["Role"]
    document = {"Statement": [{"Effect": "Allow", "Action": of, "Resource": on} for of, on in statements]}
    iam.put_role_policy(RoleName=name, PolicyName="all", PolicyDocument=json.dumps(document))
    given = aws.client("sts").assume_role(RoleArn=role["Arn"], RoleSessionName="test")["Credentials"]
    return {
        "AWS_ACCESS_KEY_ID": given["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": given["SecretAccessKey"],
        "AWS_SESSION_TOKEN": given["SessionToken"],
    }


def judged(aws: EmbeddedAws) -> list[Judged]:
    """The calls to the embedded AWS by anybody but the root, and whether they were allowed."""
    root = Credentials(aws.environment["AWS_ACCESS_KEY_ID"], aws.environment["AWS_SECRET_ACCESS_KEY"])
    answer = send(aws.environment["AWS_ENDPOINT_URL"], "/_sublet/judged", b"", signed_by=root, service="iam")
    return [Judged(*each) for each in json.loads(answer.content)]


def role_in(each: Judged) -> str:
    return each.caller.split("/")[1]


def actions(found: list[Judged], role: str) -> set[str]:
    return {each.action for each in found if role in role_in(each)}


def allowed(aws: EmbeddedAws, name: str) -> set[str]:
    iam = aws.client("iam")
    (role,) = [each["RoleName"] for each in iam.list_roles()["Roles"] if re.search(f"{name}Role", each["RoleName"])]
    found: set[str] = set()
    for policy in iam.list_role_policies(RoleName=role)["PolicyNames"]:
        for statement in iam.get_role_policy(RoleName=role, PolicyName=policy)["PolicyDocument"]["Statement"]:
            of = statement["Action"]
            found |= {of} if isinstance(of, str) else set(of)
    return found
