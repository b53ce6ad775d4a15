"""The mixed fleet's judges can say no: each rule broken once, by hand."""

from __future__ import annotations

from typing import Any

from sublet.protocol.lease import AttributeValue

from tests.e2e.deliveries import Delivery
from tests.mixed_fleet.table_watch import TableWatch
from tests.mixed_fleet.verdict import Handled, judge
from tests.mixed_fleet.workers import End, How

PARENTS = {"parent": [], "child": ["parent"]}


def handled(at: int, shard: str, text: str, by: str = "kcl-rs-1") -> Handled:
    return Handled(Delivery(at, shard, str(at), 0, text.partition("/")[0], text), by)


def test_all_is_well() -> None:
    verdict = judge(
        [handled(1, "parent", "a/0"), handled(2, "child", "a/1")], ["a/0", "a/1"], PARENTS, {"kcl-rs-1": None}
    )
    assert verdict.is_clean
    assert not verdict.duplicates


def test_a_record_that_nobody_handled_is_missing() -> None:
    assert judge([], ["a/0"], PARENTS, {}).missing == ("a/0",)


def test_a_key_that_goes_back_is_out_of_order() -> None:
    verdict = judge([handled(1, "parent", "a/1"), handled(2, "parent", "a/0")], [], PARENTS, {})
    assert verdict.out_of_order == ("a/0",)


def test_a_child_before_its_parent_is_done() -> None:
    early = [handled(1, "parent", "a/0"), handled(2, "child", "b/0"), handled(3, "parent", "a/1")]
    assert judge(early, [], PARENTS, {}).children_too_early
    again = [handled(1, "parent", "a/0"), handled(2, "child", "b/0"), handled(3, "parent", "a/0", "sublet-1")]
    assert not judge(again, [], PARENTS, {"kcl-rs-1": None}).children_too_early, (
        "a redelivery is no first delivery"
    )


def test_a_duplicate_is_explained_by_what_had_become_of_the_worker_before() -> None:
    twice = [handled(5, "parent", "a/0"), handled(9, "parent", "a/0", "sublet-1")]
    for end, why in (
        (None, "lost the lease"),
        (End(How.KILLED, 7), "killed"),
        (End(How.STOPPED, 7), "stopped"),
        (End(How.KILLED, 10), "lost the lease"),
    ):
        verdict = judge(twice, ["a/0"], PARENTS, {"kcl-rs-1": end})
        assert verdict.duplicates == {f"kcl-rs {why}, again on sublet": 1}
        assert verdict.is_clean


def test_twice_to_the_same_worker_is_not_explained() -> None:
    twice = [handled(5, "parent", "a/0"), handled(9, "parent", "a/0")]
    assert judge(twice, ["a/0"], PARENTS, {"kcl-rs-1": None}).unexplained


def row(
    counter: int = 5, checkpoint: str = "77", owner: str = "sublet-1", **more: Any
) -> dict[str, AttributeValue]:
    return {
        "leaseKey": {"S": "shard"},
        "leaseCounter": {"N": str(counter)},
        "leaseOwner": {"S": owner},
        "ownerSwitchesSinceCheckpoint": {"N": "0"},
        "checkpoint": {"S": checkpoint},
        "checkpointSubSequenceNumber": {"N": "0"},
        **more,
    }


def watch(*rows: dict[str, AttributeValue]) -> TableWatch:
    watching = TableWatch(None, "table")
    for each in rows:
        watching.look([each])
    return watching


def test_a_row_that_only_goes_on_breaks_no_rule() -> None:
    assert watch(row(5), row(6, "78"), row(7, "SHARD_END")).wrong == []


def test_rules_of_the_table() -> None:
    assert "counter" in watch(row(5), row(4)).wrong[0]
    assert "checkpoint went" in watch(row(5, "77"), row(6, "76")).wrong[0]
    assert "attributes ['entityType'] are gone" in watch(row(5, entityType={"S": "LEASE"}), row(6)).wrong[0]
    assert watch(row(5), {"leaseKey": {"S": "shard"}}).wrong
    assert watch({"leaseKey": {"S": "shard"}}).wrong


def test_kcls_own_older_position_over_a_late_checkpoint_is_counted_apart() -> None:
    watching = watch(row(5, "77", "kcl-rs-1"), row(6, "76", "kcl-rs-1"))
    assert (watching.wrong, watching.set_back) == ([], 1)
    assert watch(row(5, "77", "kcl-rs-1"), row(5, "76", "kcl-rs-1")).wrong, (
        "without a heartbeat it was not KCL"
    )


def test_moves_between_the_sides_are_counted_through_a_release() -> None:
    free = {name: value for name, value in row(7).items() if name != "leaseOwner"}
    assert watch(row(5), free, row(8, owner="kcl-rs-2"), row(9, owner="sublet-1")).moves == [
        ("sublet-1", "kcl-rs-2"),
        ("kcl-rs-2", "sublet-1"),
    ]
