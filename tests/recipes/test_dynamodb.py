"""The latest record of each key in an emulated DynamoDB: a late record never replaces a newer one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sublet.testing import SimulatedRun, simulate

from examples.latest_by_key import latest_by_key
from infra.local import EmbeddedAws
from tests.docs.documents import ROOT
from tests.exploring import explores
from tests.recipes.recipe_runs import RecipeRuns, put

pytestmark = [pytest.mark.emulator, explores, pytest.mark.timeout(300)]


@pytest.fixture
def table(aws: EmbeddedAws, stream: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    name = f"{stream}-latest"
    client = aws.client("dynamodb")
    client.create_table(
        TableName=name,
        AttributeDefinitions=[{"AttributeName": "key", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "key", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )
    monkeypatch.setenv("LATEST_TABLE", name)
    latest_by_key._table.cache_clear()
    yield latest_by_key._table()
    latest_by_key._table.cache_clear()


def stored(table: Any) -> dict[str, bytes]:
    return {item["key"]: bytes(item["data"]) for item in table.scan(ConsistentRead=True)["Items"]}


def test_each_key_s_last_record_stays_through_crashes_zombies_and_reshards(table: Any) -> None:
    def check(run: SimulatedRun) -> None:
        last: dict[str, tuple[tuple[int, int], bytes]] = {}
        for each in (delivery.record for delivery in run.deliveries):
            assert each.partition_key is not None
            place = int(each.sequence_number), each.sub_sequence_number
            if place >= last.get(each.partition_key, ((0, 0), b""))[0]:
                last[each.partition_key] = place, each.data
        assert stored(table) == {key: data for key, (_, data) in last.items()}
        for key in last:
            table.delete_item(Key={"key": key})

    simulation = simulate(latest_by_key.handle, seeds=2, check=check)
    assert simulation.repeating


def test_newer_record_stays_when_an_older_one_comes_again_after_a_kill(
    aws: EmbeddedAws, stream: str, table: Any, tmp_path: Path
) -> None:
    put(aws, stream, [("key", b"1"), ("key", b"2")])
    environment = {"LATEST_TABLE": table.name}
    code = ROOT / "examples" / "latest_by_key"
    runs = RecipeRuns(aws, stream, code, "latest_by_key:handle", tmp_path, environment, {"batch_size": "1"})
    runs.run_until_killed()
    assert stored(table)["key"] in (b"1", b"2")
    put(aws, stream, [("key", b"3")])
    runs.run_until(lambda: stored(table)["key"] == b"3")
    assert stored(table) == {"key": b"3"}
