"""The mixed fleet's judges can say no: each rule broken once, by hand."""

from __future__ import annotations

from typing import Any

from sublet.protocol.checkpoint import TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import AttributeValue
from sublet.protocol.write_clauses import SEEK_LEAP

from tests.e2e.deliveries import Delivery
from tests.mixed_fleet.history import RowWritten
from tests.mixed_fleet.table_watch import TableWatch
from tests.mixed_fleet.verdict import LOST, Handled, Repeat, Tenure, Verdict, judge, tenures_of
from tests.mixed_fleet.workers import End, How

PARENTS = {"parent": [], "child": ["parent"]}


def handled(at: int, shard: str, text: str, by: str = "kcl2-1", sequence_number: int | None = None) -> Handled:
    place = (str(sequence_number or at), 0, text.partition("/")[0])
    return Handled(Delivery(at, shard, *place, text), by)


def written(at: int, shard: str, owner: str | None, checkpoint: str = "TRIM_HORIZON", **more: str) -> RowWritten:
    owned = {} if owner is None else {"leaseOwner": owner}
    texts = {"leaseKey": shard, "checkpoint": checkpoint, **owned, **more}
    numbers: dict[str, AttributeValue] = {
        "leaseCounter": {"N": str(at)},
        "ownerSwitchesSinceCheckpoint": {"N": "0"},
    }
    return RowWritten(at, shard, {**{name: {"S": value} for name, value in texts.items()}, **numbers})


HELD = [written(0, shard, "kcl2-1") for shard in PARENTS]
TAKEN_AT_7 = [*HELD, written(7, "parent", "sublet-1", "4")]


def judged(
    deliveries: list[Handled], put: list[str], writes: list[RowWritten] = HELD, end: End | None = None
) -> Verdict:
    return judge(deliveries, put, PARENTS, {"kcl2-1": end, "sublet-1": None}, writes)


def test_verdict_is_clean_when_every_record_is_handled_once() -> None:
    verdict = judged([handled(1, "parent", "a/0"), handled(2, "child", "a/1")], ["a/0", "a/1"])
    assert verdict.is_clean
    assert not verdict.repeats


def test_an_unhandled_record_is_missing() -> None:
    assert judged([], ["a/0"]).missing == ("a/0",)
    assert judge([], [], {}, {}, [], unordered=["kpl-1/0"]).missing == ("kpl-1/0",)


def test_a_key_that_goes_back_is_out_of_order() -> None:
    back = [handled(1, "parent", "a/1"), handled(2, "parent", "a/0")]
    assert judged(back, []).out_of_order == ("a/0",)
    assert not judge(back, [], PARENTS, {"kcl2-1": None}, HELD, unordered=["a/0", "a/1"]).out_of_order


def test_a_child_before_its_parent_is_done() -> None:
    early = [handled(1, "parent", "a/0"), handled(2, "child", "b/0"), handled(3, "parent", "a/1")]
    assert judged(early, []).children_too_early
    again = [handled(1, "parent", "a/0"), handled(2, "child", "b/0"), handled(3, "parent", "a/0", "sublet-1")]
    assert not judged(again, []).children_too_early, "a redelivery is no first delivery"


def test_a_repeat_is_explained_by_how_the_worker_before_ended() -> None:
    twice = [handled(5, "parent", "a/0"), handled(9, "parent", "a/0", "sublet-1", sequence_number=5)]
    for end, why in (
        (None, LOST),
        (End(How.KILLED, 7), "killed"),
        (End(How.STOPPED, 7), "stopped"),
        (End(How.STOPPED, 8), LOST),
        (End(How.KILLED, 10), LOST),
    ):
        verdict = judged(twice, ["a/0"], TAKEN_AT_7, end)
        assert verdict.repeats == {Repeat("kcl2", why, "sublet"): 1}
        assert verdict.is_clean


def test_repeat_of_checkpointed_records_is_not_explained() -> None:
    twice = [handled(3, "parent", "a/0"), handled(9, "parent", "a/0", "sublet-1", sequence_number=4)]
    assert "behind it at 4" in judged(twice, [], TAKEN_AT_7).unexplained[0]


def test_record_before_a_tenures_checkpoint_is_wrong_even_the_first_time() -> None:
    assert judged([handled(9, "parent", "a/0", "sublet-1", sequence_number=3)], [], TAKEN_AT_7).unexplained


def test_twice_in_one_tenure_is_not_explained_and_in_two_it_is() -> None:
    twice = [handled(5, "parent", "a/0"), handled(9, "parent", "a/0", sequence_number=5)]
    assert "in one tenure" in judged(twice, []).unexplained[0]
    back = [*HELD, written(6, "parent", None), written(8, "parent", "kcl2-1")]
    assert not judged(twice, [], back).unexplained


def test_a_new_window_of_sublets_is_a_tenure_of_its_own() -> None:
    windows = [
        written(at, "parent", "sublet-1", checkpoint, subletHolder=f"item/{at}")
        for at, checkpoint in ((1, "TRIM_HORIZON"), (2, "4"))
    ]
    assert tenures_of(windows)["parent"] == [
        Tenure(1, "sublet-1", TRIM_HORIZON),
        Tenure(2, "sublet-1", Checkpoint("4")),
    ]


def test_a_worker_that_never_had_the_lease_may_handle_nothing() -> None:
    assert "never had" in judged([handled(1, "parent", "a/0", "sublet-1")], []).unexplained[0]


def test_a_worker_that_hands_over_has_the_lease_until_the_hand_over() -> None:
    handing = [
        written(1, "parent", "kcl3-1"),
        written(2, "parent", "sublet-1", checkpointOwner="kcl3-1"),
        written(3, "parent", "sublet-1", "77"),
    ]
    assert [(each.since, each.worker_id) for each in tenures_of(handing)["parent"]] == [
        (1, "kcl3-1"),
        (3, "sublet-1"),
    ]


def test_a_deleted_row_and_one_that_is_no_lease_start_no_tenure() -> None:
    other = RowWritten(1, "Leader", {"leaseKey": {"S": "Leader"}, "entityType": {"S": "LEADER"}})
    assert tenures_of([other, RowWritten(2, "parent", None)]) == {}


def row(counter: int = 5, checkpoint: str = "77", owner: str = "sublet-1", **more: Any) -> dict[str, AttributeValue]:
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
    watching = TableWatch()
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
    watching = watch(row(5, "77", "kcl2-1"), row(6, "76", "kcl2-1"))
    assert (watching.wrong, watching.set_back) == ([], 1)
    assert watch(row(5, "77", "kcl2-1"), row(5, "76", "kcl2-1")).wrong, "without a heartbeat it was not KCL"


def test_an_operator_moves_a_position_back_only_as_it_takes_the_lease_from_its_owner() -> None:
    before = row(5, "SHARD_END")
    unowned = {name: value for name, value in row(5 + SEEK_LEAP, "76").items() if name != "leaseOwner"}
    for is_moved_back, after, is_right in (
        (True, unowned, True),
        (True, row(5 + SEEK_LEAP, "76"), False),
        (True, {**unowned, "leaseCounter": {"N": "7"}}, False),
        (False, unowned, False),
    ):
        watching = TableWatch(is_moved_back=is_moved_back)
        watching.look([before])
        watching.look([after])
        assert (watching.wrong == []) is is_right
