"""Records of several shards in the order of their arrival, while the shards are read at different speeds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from sublet.operate.rules.arrival_order import PATIENCE, ArrivalOrder
from sublet.protocol.records import StreamRecord, UserRecord

START = datetime(2026, 11, 22, 8, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def at(second: int) -> datetime:
    return START + second * SECOND


def records(*seconds: int) -> list[UserRecord]:
    return [UserRecord(str(each).encode(), "key", 0, StreamRecord(str(each), b"", "key", at(each))) for each in seconds]


def order_of(*shards: str) -> ArrivalOrder:
    order = ArrivalOrder()
    for each in shards:
        order.begin(each)
    return order


def read(order: ArrivalOrder, shard: str, *seconds: int, reached: int | None = None, tip: bool = False) -> None:
    order.add(shard, records(*seconds), None if reached is None else at(reached), is_at_tip=tip)


def released(order: ArrivalOrder) -> Sequence[tuple[str, int]]:
    return [(found.shard_id, int(found.record.data)) for found in order.released()]


def test_records_wait_for_a_shard_that_is_behind() -> None:
    order = order_of("a", "b")
    read(order, "a", 1, 4, 5)
    assert released(order) == []
    read(order, "b", 2, 3)
    assert released(order) == [("a", 1), ("b", 2), ("b", 3)]
    assert order.held_of("a") == 2
    read(order, "b", 6)
    assert released(order) == [("a", 4), ("a", 5)]


def test_a_shard_at_its_tip_is_not_waited_for() -> None:
    order = order_of("a", "b")
    read(order, "a", 1, 2)
    read(order, "b", tip=True)
    assert released(order) == [("a", 1), ("a", 2)]


def test_an_empty_page_tells_how_far_a_quiet_shard_has_come() -> None:
    order = order_of("a", "b")
    read(order, "a", 1, 2, 3)
    read(order, "b", reached=2)
    assert released(order) == [("a", 1), ("a", 2)]


def test_a_shard_that_brings_nothing_is_waited_for_only_so_long() -> None:
    for quiet in (lambda order: order.unanswered("b"), lambda order: read(order, "b")):
        order = order_of("a", "b")
        read(order, "a", 1)
        for _ in range(PATIENCE - 1):
            quiet(order)
            assert released(order) == []
        quiet(order)
        assert released(order) == [("a", 1)]
        read(order, "b", 0)
        assert released(order) == [("b", 0)], "late, but not lost"


def test_a_shards_own_records_and_its_childrens_keep_their_order() -> None:
    """Kinesis does not promise that arrival times rise."""
    order = order_of("parent", "other")
    read(order, "parent", 5, 3)
    order.end("parent")
    order.begin("child", ["parent"])
    read(order, "child", 4, 6)
    read(order, "other", 4, tip=True)
    assert released(order) == [("other", 4), ("parent", 5), ("parent", 3), ("child", 4), ("child", 6)]


def test_records_of_an_ended_shard_are_released() -> None:
    order = order_of("a", "b")
    read(order, "a", 1)
    order.end("a")
    assert released(order) == []
    order.end("b")
    assert released(order) == [("a", 1)]
