"""The real stack, deployed by the CDK, and what its users rely on: on the embedded AWS, or where README.md says.

The embedded AWS enforces IAM. Each function then has its own role's permissions and no more, so every test here also
tests least privilege there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import boto3
import pytest
from botocore.exceptions import ClientError
from sublet.decisions.manager.quiet_shards import ASKED_AT_MOST_EVERY

from infra.local.embedded import ACCOUNT, REGION
from tests.e2e.chosen_aws import ChosenAws, chosen_aws
from tests.e2e.deliveries import out_of_order, wait_until
from tests.e2e.fleet import Fleet, deployed

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

KEYS = [f"key-{n}" for n in range(40)]


@pytest.fixture(scope="module")
def chosen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChosenAws]:
    with chosen_aws(tmp_path_factory.mktemp("recorder")) as chosen:
        yield chosen


@pytest.fixture(scope="module")
def fleet(chosen: ChosenAws) -> Iterator[Fleet]:
    context = {"handler_backoff": "100ms", "handler_attempts": "20", **chosen.context}
    with deployed(chosen.aws, chosen.application, chosen.recorder_place, **context) as fleet:
        yield fleet


@pytest.fixture(autouse=True)
def quiet(fleet: Fleet) -> Iterator[None]:
    yield
    fleet.recorder.dawdle(0)
    fleet.wait_until_free()


def test_plain_and_aggregated_records_through_a_split_and_a_merge(fleet: Fleet) -> None:
    fleet.produce(KEYS)
    fleet.produce(KEYS, aggregated=True)
    fleet.tick()
    fleet.split()
    fleet.produce(KEYS * 2)
    fleet.produce(KEYS, aggregated=True)
    fleet.tick()
    fleet.merge()
    fleet.produce(KEYS, aggregated=True)
    fleet.produce(KEYS)
    fleet.tick()
    deliveries = fleet.recorder.wait_for(fleet.put, 60)
    assert out_of_order(deliveries) == []
    assert {delivery.partition_key for delivery in deliveries} == set(KEYS)
    assert fleet.recorder.ended() == _closed(fleet)


def _closed(fleet: Fleet) -> set[str]:
    everything = {shard["ShardId"] for shard in fleet.kinesis.list_shards(StreamName=fleet.stream)["Shards"]}
    return everything - {shard["ShardId"] for shard in fleet.open_shards()}


def test_concurrent_ticks_start_each_lease_once(fleet: Fleet) -> None:
    texts = fleet.produce(KEYS)
    with ThreadPoolExecutor(2) as pool:
        prompts = [pool.submit(fleet.tick) for _ in range(2)]
        ticks = [tick for prompt in prompts for tick in prompt.result()["ticks"]]
    assert 1 <= len(ticks) <= 2, "what comes during a tick makes it look again"
    assert all(tick["total_leases"] == len(fleet.open_shards()) for tick in ticks)
    deliveries = fleet.recorder.wait_for(texts, 60)
    fleet.wait_until_free()
    times = [sum(delivery.text == text for delivery in deliveries) for text in texts]
    assert times == [1] * len(texts)


def test_tick_starts_no_execution_over_quiet_shards_until_records_arrive(
    fleet: Fleet,
) -> None:
    texts = fleet.produce(KEYS)
    fleet.tick()
    fleet.recorder.wait_for(texts, 60)
    fleet.wait_until_free()
    for _ in range(2):
        (tick,) = fleet.tick()["ticks"]
        assert (tick["dispatched"], tick["quiet_leases"]) == ([], len(fleet.open_shards()))
    (text,) = fleet.produce(KEYS[:1])
    time.sleep(ASKED_AT_MOST_EVERY.total_seconds())
    (tick,) = fleet.tick()["ticks"]
    assert len(tick["dispatched"]) == 1, "one item, for the one shard"
    assert tick["quiet_leases"] == len(fleet.open_shards()) - 1
    fleet.recorder.wait_for([text], 60)


def test_a_handler_that_fails_ten_times_skips_nothing(fleet: Fleet) -> None:
    fleet.recorder.fail(10)
    texts = fleet.produce(KEYS * 3)
    fleet.tick()
    deliveries = fleet.recorder.wait_for(texts, 60)
    assert fleet.recorder.failures_left() == 0
    assert out_of_order(deliveries) == []


def test_work_goes_on_at_once_after_a_worker_is_killed(fleet: Fleet) -> None:
    """No lease waits for failover_time: Step Functions sees the crash and runs the same item again."""
    fleet.recorder.dawdle(60)  # longer than this test: the worker is in mid-call when it is killed
    before = len(fleet.recorder.deliveries())
    texts = fleet.produce(KEYS * 4)
    fleet.tick()
    wait_until(lambda: len(fleet.recorder.deliveries()) > before, 30, lambda: "the worker never began")
    more = fleet.produce(KEYS)
    fleet.recorder.dawdle(0)
    fleet.recorder.kill()
    deliveries = fleet.recorder.wait_for([*texts, *more], 20)
    assert out_of_order(deliveries) == []


def test_every_lease_has_the_attributes_that_kcl_expects(fleet: Fleet) -> None:
    """A Java worker needs counter, owner switches and checkpoint in the rows, or it stops taking leases altogether."""
    for row in fleet.wait_until_free().values():
        assert {
            "leaseKey",
            "leaseCounter",
            "ownerSwitchesSinceCheckpoint",
            "checkpoint",
            "checkpointSubSequenceNumber",
        } <= row.keys()
        assert {"startingHashKey", "endingHashKey"} <= row.keys()


def test_a_function_may_do_nothing_that_it_need_not(chosen: ChosenAws, fleet: Fleet) -> None:
    """Proves what the other tests here assume: that IAM is enforced."""
    if not chosen.enforces_iam:
        pytest.skip("LocalStack enforces no IAM without a licence: there is nothing to be refused by")
    role = fleet.lambda_.get_function_configuration(FunctionName=fleet.outputs["LeaseWorker"])["Role"]
    session = chosen.aws.client("sts").assume_role(RoleArn=role, RoleSessionName="e2e")["Credentials"]
    as_worker = boto3.session.Session(
        session["AccessKeyId"], session["SecretAccessKey"], session["SessionToken"], REGION
    ).client("dynamodb", endpoint_url=chosen.aws.environment["AWS_ENDPOINT_URL"])
    table = fleet.outputs["LeaseTable"]
    assert "Item" not in as_worker.get_item(TableName=table, Key={"leaseKey": {"S": "no such lease"}})
    with pytest.raises(ClientError, match="AccessDenied"):
        as_worker.delete_table(TableName=table)


def test_schedule_rule_starts_ticks(fleet: Fleet) -> None:
    """No prompts here: EventBridge fires every minute."""
    texts = fleet.produce(KEYS)
    fleet.recorder.wait_for(texts, 150)


def test_state_machine_has_the_documented_trust_and_a_vended_log_group(chosen: ChosenAws, fleet: Fleet) -> None:
    """Its role is assumed before the state machine exists; and no log group of its own uses up the account's resource
    policy."""
    if not chosen.enforces_iam:
        pytest.skip("asked of the embedded AWS alone")
    aws, machine = fleet.aws, fleet.outputs["StateMachineArn"]
    described = aws.client("stepfunctions").describe_state_machine(stateMachineArn=machine)
    role = aws.client("iam").get_role(RoleName=described["roleArn"].rpartition("/")[2])["Role"]
    (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "states.amazonaws.com"}
    assert trust["Condition"] == {
        "ArnLike": {"aws:SourceArn": f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:*"},
        "StringEquals": {"aws:SourceAccount": ACCOUNT},
    }
    name = machine.rpartition(":")[2]
    groups = aws.client("logs").describe_log_groups(logGroupNamePrefix="/aws/vendedlogs/states/")["logGroups"]
    assert [each["logGroupName"] for each in groups] == [f"/aws/vendedlogs/states/{name}"]
