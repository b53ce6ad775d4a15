"""An operator's pause, drain and resume under the deployed stack, with the commands that an operator types: workers
obey within a tick or ten seconds, records wait, and after `resume` they are handled in order.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from sublet.aws.tables.sightings import DynamoDbSightingStore
from sublet.decisions.manager.quiet_shards import ASKED_AT_MOST_EVERY
from sublet.decisions.session.control import READ_EVERY
from sublet.settings.value import SIGHTINGS_SUFFIX

from tests.e2e.chosen_aws import ChosenAws, chosen_aws
from tests.e2e.deliveries import out_of_order, wait_until
from tests.e2e.fleet import Fleet, deployed
from tests.exploring import explores

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(600),
]  # a deployment on LocalStack takes minutes on a busy machine

KEYS = [f"key-{n}" for n in range(40)]
OBEYED_WITHIN = READ_EVERY + timedelta(seconds=50)
"""Ten seconds, and the call of the handler that is under way, its checkpoint and its release, on a busy machine."""


@pytest.fixture(scope="module")
def chosen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChosenAws]:
    with chosen_aws(tmp_path_factory.mktemp("recorder")) as chosen:
        yield chosen


@pytest.fixture(scope="module")
def fleet(chosen: ChosenAws) -> Iterator[Fleet]:
    context = {"batch_size": "5", **chosen.context}
    with deployed(chosen.aws, f"{chosen.application}-paused", chosen.recorder_place, **context) as fleet:
        yield fleet


@pytest.fixture(autouse=True)
def quiet(fleet: Fleet) -> Iterator[None]:
    yield
    fleet.recorder.dawdle(0)
    sublet(fleet, "resume")
    fleet.wait_until_free()


def sublet(fleet: Fleet, command: str, *arguments: str, code: int = 0) -> str:
    """What it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "sublet", command, "--application", fleet.outputs["LeaseTable"], *arguments],
        env=fleet.aws.environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done.stdout


def words(fleet: Fleet) -> dict[str, str]:
    """By shard, of those that are not read to their ends."""
    shown: Any = json.loads(sublet(fleet, "status", "--json"))
    return {each["shard"]: each["word"] for each in shown["shards"]}


def owners(fleet: Fleet) -> dict[str, str]:
    rows = fleet.leases().items()
    return {key: row["leaseOwner"]["S"] for key, row in rows if "leaseOwner" in row}


def ask_again(fleet: Fleet) -> list[str]:
    """A tick that asks the shards, whatever the one before has found. The worker items that it sent; a tick of the
    schedule may have been first.
    """
    time.sleep(ASKED_AT_MOST_EVERY.total_seconds())
    return [item for tick in fleet.tick()["ticks"] for item in tick["dispatched"]]


def forget_that_they_were_caught_up_lately(fleet: Fleet) -> None:
    """As five minutes later, from when on ticks ask shards without an owner again."""
    for key in fleet.leases():
        fleet.dynamodb.update_item(
            TableName=fleet.outputs["LeaseTable"],
            Key={"leaseKey": {"S": key}},
            UpdateExpression="REMOVE subletCaughtUpAt, subletQuietUntil",
        )


@explores
def test_paused_shard_waits_and_the_other_goes_on(fleet: Fleet) -> None:
    stopped, running = sorted(shard["ShardId"] for shard in fleet.open_shards())
    texts = fleet.produce(KEYS)
    fleet.tick()
    before = len(fleet.recorder.wait_for(texts, 60))
    fleet.wait_until_free()
    sublet(fleet, "pause", "--shard", stopped)

    texts = fleet.produce(KEYS)
    ask_again(fleet)
    wait_until(lambda: len(fleet.recorder.deliveries()) > before, 60, lambda: "nothing came")
    fleet.wait_until_free()
    ask_again(fleet)
    came = fleet.recorder.deliveries()[before:]
    assert {delivery.shard_id for delivery in came} == {running}
    stands = words(fleet)
    assert stands[stopped] == "PAUSED"
    assert stands[running] != "PAUSED"

    sublet(fleet, "resume", "--shard", stopped)
    ask_again(fleet)
    deliveries = fleet.recorder.wait_for(texts, 60)
    assert {delivery.shard_id for delivery in deliveries[before + len(came) :]} == {stopped}
    assert out_of_order(deliveries) == []


@explores
def test_fleet_stops_in_mid_work_when_paused_and_resumes_without_repeats(fleet: Fleet) -> None:
    fleet.recorder.dawdle(1)
    before = len(fleet.recorder.deliveries())
    texts = fleet.produce(KEYS * 3)
    with fleet.recorder.holding():  # so that the work is not done before the command has begun
        ask_again(fleet)
        wait_until(lambda: len(fleet.recorder.deliveries()) > before, 60, lambda: "the workers never began")
        sublet(fleet, "pause")
    wait_until(lambda: not owners(fleet), OBEYED_WITHIN.total_seconds(), lambda: f"still held: {owners(fleet)}")
    handled = fleet.recorder.deliveries()
    assert {delivery.text for delivery in handled} < set(texts) | {each.text for each in handled[:before]}

    forget_that_they_were_caught_up_lately(fleet)
    assert ask_again(fleet) == []
    time.sleep(2)
    assert fleet.recorder.deliveries() == handled, "no handler is called while it is paused"
    assert set(words(fleet).values()) == {"PAUSED"}
    unread = DynamoDbSightingStore(lambda: fleet.dynamodb, fleet.outputs["LeaseTable"] + SIGHTINGS_SUFFIX).load().unread
    waiting = [key for key, found in unread.items() if found.since is not None]
    assert waiting, "by this, the alarm on retention rings also for what is paused"

    fleet.recorder.dawdle(0)
    sublet(fleet, "resume")
    ask_again(fleet)
    deliveries = fleet.recorder.wait_for(texts, 60)
    assert out_of_order(deliveries) == []
    fleet.wait_until_free()
    times = [sum(delivery.text == text for delivery in fleet.recorder.deliveries()) for text in texts]
    assert times == [1] * len(texts), "a pause lets a batch end: nothing comes twice"


@explores
def test_drained_means_that_nothing_is_under_way(fleet: Fleet) -> None:
    fleet.recorder.dawdle(1)
    before = len(fleet.recorder.deliveries())
    texts = fleet.produce(KEYS * 3)
    ask_again(fleet)
    wait_until(lambda: len(fleet.recorder.deliveries()) > before, 60, lambda: "the workers never began")
    sublet(fleet, "drain", "--timeout", "60s")
    assert owners(fleet) == {}
    handled = fleet.recorder.deliveries()
    assert ask_again(fleet) == []
    time.sleep(2)
    assert fleet.recorder.deliveries() == handled

    fleet.recorder.dawdle(0)
    sublet(fleet, "resume")
    ask_again(fleet)
    assert out_of_order(fleet.recorder.wait_for(texts, 60)) == []
