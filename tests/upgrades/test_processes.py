"""An application that `python -m sublet run` of 0.2 began is continued by this version, taken back by 0.2, and so on:
on one lease table, beside rows that a Java KCL left, through kills, a reshard, and orders of the operator by either."""

from __future__ import annotations

import json
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from infra.local import EmbeddedAws
from tests.exploring import explores
from tests.upgrades.fleet import FAILOVER, UpgradedFleet
from tests.upgrades.released import NOW, Code, released_or_skipped

pytestmark = [pytest.mark.emulator, pytest.mark.slow, explores, pytest.mark.timeout(600)]

JAVA = {"leaseOwner": {"S": "java-worker"}, "leaseCounter": {"N": "7"}, "checkpoint": {"S": "TRIM_HORIZON"}}
KEPT = {
    "throughputKBps": {"N": "1.5"},
    "entityType": {"S": "LEASE"},
    "ownerSwitchesSinceCheckpoint": {"N": "3"},
}
THEIRS = {"addedByAnother": {"S": "kept"}}
"""Attributes of a KCL's that sublet does not use, or not know: they stay in the rows."""


@pytest.fixture
def released() -> Code:
    return released_or_skipped()


@pytest.fixture
def fleet(embedded_aws: EmbeddedAws, tmp_path: Path) -> Iterator[UpgradedFleet]:
    name = f"upgrades-{uuid.uuid4().hex[:8]}"
    embedded_aws.client("s3").create_bucket(Bucket=name)
    kinesis = embedded_aws.client("kinesis")
    kinesis.create_stream(StreamName=name, ShardCount=2)
    kinesis.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})
    fleet = UpgradedFleet(embedded_aws, name, tmp_path, f"arn:aws:s3:::{name}")
    yield fleet
    fleet.end_all()


def test_an_application_goes_from_0_2_to_now_and_back_and_loses_nothing(released: Code, fleet: UpgradedFleet) -> None:
    """Each version ends a process in good order, has the next one killed, and leaves orders behind."""
    java_leaves_rows(fleet)
    for code, then, reshard in (
        (released, NOW, split),
        (NOW, released, leave),
        (released, NOW, leave),
        (NOW, released, split),
    ):
        sets_one_aside_and_ends(fleet, code)
        is_killed_while_one_lane_is_stuck(fleet, code, then)
        fleet.until(f"{then.version} redrives", partial(redriven, fleet, then))
        orders_stand(fleet, code, then)
        reshard(fleet)
    last = fleet.start(NOW)
    fleet.until("all are handled", lambda: fleet.is_ready(last) and not missing(fleet))
    fleet.end(last)
    assert not missing(fleet), "lost"
    assert set(fleet.handled()) <= set(fleet.put)
    keep_what_is_theirs(fleet)


def sets_one_aside_and_ends(fleet: UpgradedFleet, code: Code) -> None:
    """What the version before has left is handled, and of what it finished nothing is repeated."""
    (fleet.folder / "bad").touch()
    before = fleet.handled()
    process = fleet.start(code, SUBLET_MAXIMUM_RETRY_ATTEMPTS="2")
    (bad,), mine = fleet.produce(1, "bad"), fleet.produce(20)
    s3 = fleet.aws.client("s3")
    fleet.until(f"{code.version} handles the rest", lambda: missing(fleet) == {bad})
    fleet.until(f"{code.version} sets it aside", lambda: s3.list_objects_v2(Bucket=fleet.name).get("Contents"))
    fleet.end(process)
    (fleet.folder / "bad").unlink()
    assert set(mine) <= set(fleet.handled(code.version))
    assert {text for text in before if fleet.handled()[text] > before[text]} == set(), "once more"


def is_killed_while_one_lane_is_stuck(fleet: UpgradedFleet, code: Code, then: Code) -> None:
    """The next version knows how often it was tried, and which records beyond it are finished."""
    (fleet.folder / "stuck").touch()
    process = fleet.start(code)
    (stuck,) = fleet.produce(1, "stuck")
    fleet.until(f"{code.version} is stuck", lambda: attempts(fleet, code, stuck) >= 2)
    beside = fleet.produce(20)
    fleet.until(f"{code.version} handles what is beside it", lambda: set(beside) & set(fleet.handled()))
    fleet.until(f"{code.version} handles all that is not behind it", lambda: handles_nothing_more(fleet))
    fleet.until(f"{code.version} notes it", lambda: is_killed_at(process, lambda: is_noted(fleet)))
    finished = set(beside) & set(fleet.handled())
    tried = attempts(fleet, code, stuck)
    process = fleet.start(then)
    fleet.until(f"{then.version} tries it", lambda: attempts(fleet, then, stuck))
    (fleet.folder / "stuck").unlink()
    fleet.until(f"{then.version} goes on", lambda: all(text.startswith("bad") for text in missing(fleet)))
    first = min(each.attempt for each in fleet.noted() if (each.version, each.text) == (then.version, stuck))
    assert first > 1, f"{then.version} does not know that {code.version} tried {tried} times"
    again = {text for text in finished if fleet.handled()[text] > 1}
    assert not again, f"{then.version} repeats what {code.version} has finished ahead"
    fleet.end(process)


def java_leaves_rows(fleet: UpgradedFleet) -> None:
    """As a Java KCL that has ended does: they have an owner, whose counter stands."""
    dynamodb = fleet.aws.client("dynamodb")
    dynamodb.create_table(
        TableName=fleet.name,
        KeySchema=[{"AttributeName": "leaseKey", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "leaseKey", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    for shard in fleet.aws.client("kinesis").list_shards(StreamName=fleet.name)["Shards"]:
        hashes = shard["HashKeyRange"]
        own = {
            "leaseKey": {"S": shard["ShardId"]},
            "checkpointSubSequenceNumber": {"N": "0"},
            "startingHashKey": {"S": hashes["StartingHashKey"]},
            "endingHashKey": {"S": hashes["EndingHashKey"]},
        }
        dynamodb.put_item(TableName=fleet.name, Item={**JAVA, **KEPT, **THEIRS, **own})


def redriven(fleet: UpgradedFleet, code: Code) -> bool:
    fleet.operate(code, "redrive", "--from", fleet.on_failure, "--handler", "journal:handle")
    return not missing(fleet)


def orders_stand(fleet: UpgradedFleet, code: Code, then: Code) -> None:
    """A pause, a snapshot and a seek of one version are the other's too."""
    name = f"by-{code.version.replace('.', '-')}-{len(fleet.put)}"
    fleet.operate(code, "snapshot", name)
    assert name in fleet.operate(then, "snapshots")
    before = positions(fleet)
    fleet.operate(code, "seek", "earliest", "--execute")
    assert positions(fleet) != before
    fleet.operate(then, "undo", "--execute", "--confirm", fleet.name)
    after = positions(fleet)
    assert {shard: after[shard] for shard in before} == before
    assert {after[shard] for shard in after.keys() - before.keys()} <= {"SHARD_END/0"}
    fleet.operate(code, "pause")
    assert words(fleet, then) == {"PAUSED"}
    process = fleet.start(then)
    (waits,) = fleet.produce(1, "paused")
    fleet.until(f"{then.version} has looked at the leases", lambda: fleet.is_ready(process))
    time.sleep(FAILOVER)  # its next tick is sooner
    assert waits not in fleet.handled(), f"{then.version} does not obey a pause by {code.version}"
    fleet.operate(then, "resume")
    fleet.until(f"{then.version} goes on", lambda: waits in fleet.handled())
    fleet.end(process)


def words(fleet: UpgradedFleet, code: Code) -> set[str]:
    said = json.loads(fleet.operate(code, "status", "--json", code_of_exit=None))
    return {shard["word"] for shard in said["shards"]} - {"ENDED"}


def attempts(fleet: UpgradedFleet, code: Code, text: str) -> int:
    """Of that version's code, failed or not."""
    return sum((each.version, each.text) == (code.version, text) for each in fleet.noted())


def is_killed_at(process: subprocess.Popen[bytes], moment: Callable[[], bool]) -> bool:
    """Stands still while it is looked for the moment, so that the process is killed exactly then."""
    process.send_signal(signal.SIGSTOP)
    if moment():
        process.kill()
        process.wait()
        return True
    process.send_signal(signal.SIGCONT)
    return False


def is_noted(fleet: UpgradedFleet) -> bool:
    """A row says how often its first records were tried, and what is finished beyond them, as of its last write."""
    return any(
        "subletAttempts" in row and row.get("subletAhead", {"S": ""})["S"].partition("@")[0] == row["leaseCounter"]["N"]
        for row in fleet.rows()
    )


def handles_nothing_more(fleet: UpgradedFleet) -> bool:
    before = fleet.handled()
    time.sleep(1)
    return fleet.handled() == before


def split(fleet: UpgradedFleet) -> None:
    kinesis = fleet.aws.client("kinesis")
    shards = kinesis.list_shards(StreamName=fleet.name)["Shards"]
    shard = next(each for each in shards if "EndingSequenceNumber" not in each["SequenceNumberRange"])
    low, high = (int(shard["HashKeyRange"][f"{end}HashKey"]) for end in ("Starting", "Ending"))
    kinesis.split_shard(StreamName=fleet.name, ShardToSplit=shard["ShardId"], NewStartingHashKey=str((low + high) // 2))
    kinesis.get_waiter("stream_exists").wait(StreamName=fleet.name, WaiterConfig={"Delay": 1})


def leave(fleet: UpgradedFleet) -> None:
    """The shards as they are."""


def keep_what_is_theirs(fleet: UpgradedFleet) -> None:
    """What a KCL wrote beside ours stays in its rows."""
    for row in fleet.rows():
        if row["leaseKey"]["S"] == "shardId-000000000001":
            assert {name: row.get(name) for name in THEIRS} == THEIRS, row


def positions(fleet: UpgradedFleet) -> dict[str, str]:
    columns = ("checkpoint", "checkpointSubSequenceNumber")
    return {
        row["leaseKey"]["S"]: "/".join(value for column in columns for value in row[column].values())
        for row in fleet.rows()
    }


def missing(fleet: UpgradedFleet) -> set[str]:
    return set(fleet.put) - set(fleet.handled())
