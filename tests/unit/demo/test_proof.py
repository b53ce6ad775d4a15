"""The demo's proof fails for every kind of fault that it is there to find."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from sublet.protocol.records import StreamRecord, UserRecord
from sublet.protocol.shard import HASH_KEY_MAX, HashKeyRange, Shard

from demo.flights import Flight, events_per_key, figures
from demo.proof import Proof, prove
from examples.flights.flights import ShardTotals

MIDDLE = HASH_KEY_MAX // 2
PARENT = Shard("shardId-000000000000", HashKeyRange(0, HASH_KEY_MAX), starting_sequence_number="1", is_open=False)
LEFT = Shard("shardId-000000000001", HashKeyRange(0, MIDDLE), PARENT.shard_id, starting_sequence_number="50")
RIGHT = Shard(
    "shardId-000000000002",
    HashKeyRange(MIDDLE + 1, HASH_KEY_MAX),
    PARENT.shard_id,
    starting_sequence_number="51",
)
SHARDS = (PARENT, LEFT, RIGHT)


def flight(key: str, number: int, carrier: str = "UA") -> Flight:
    return Flight(key, number, carrier, 1545, "EWR", "IAH", "2013-01-01T05:15", 2, None if number == 3 else 11)


FLIGHTS = [
    flight("N1", 1),
    flight("N1", 2),
    flight("N2", 1, "AA"),
    flight("N1", 3),
    flight("N1", 4),
    flight("N2", 2, "AA"),
]


def records(flights: Iterable[Flight], first: int) -> list[UserRecord]:
    at = datetime(2026, 1, 31, tzinfo=UTC)
    return [
        UserRecord(f.event(), f.partition_key, 0, StreamRecord(str(first + n), f.event(), f.partition_key, at))
        for n, f in enumerate(flights)
    ]


def handled(shard: Shard, flights: Iterable[Flight], now: float) -> ShardTotals:
    totals = ShardTotals(shard.shard_id)
    totals.add(records(flights, int(shard.starting_sequence_number)), now)
    return totals


def proof_of(*rows: ShardTotals) -> Proof:
    return prove(rows, SHARDS, events_per_key(FLIGHTS), figures(FLIGHTS))


@pytest.fixture
def rows() -> tuple[ShardTotals, ShardTotals, ShardTotals]:
    """All flights, three of them in the parent, then N1 on the left and N2 on the right."""
    return (
        handled(PARENT, FLIGHTS[:3], now=10),
        handled(LEFT, FLIGHTS[3:5], now=20),
        handled(RIGHT, FLIGHTS[5:], now=21),
    )


Rows = tuple[ShardTotals, ShardTotals, ShardTotals]


def test_holds_when_every_key_goes_on_from_parent_to_child(rows: Rows) -> None:
    proof = proof_of(*rows)
    assert proof.holds, proof
    assert (proof.handled, proof.missing, proof.keys, proof.keys_that_moved) == (6, 0, 2, 2)
    assert proof.figures["UA"] == figures(FLIGHTS)["UA"]
    assert proof.figures["UA"].departed == 4
    assert proof.figures["UA"].arrived == 3


def test_a_redelivered_batch_is_counted_and_changes_nothing_else(rows: Rows) -> None:
    again = handled(PARENT, FLIGHTS[:3], now=10)
    again.add(records(FLIGHTS[1:3], 2), now=30)
    proof = proof_of(again, *rows[1:])
    assert proof.holds, proof
    assert proof.redelivered == 2
    assert replace(proof, redelivered=0) == proof_of(*rows)


def test_an_event_that_never_came_is_missing_and_leaves_a_gap(rows: Rows) -> None:
    proof = proof_of(rows[0], handled(LEFT, FLIGHTS[4:5], now=20), rows[2])
    assert not proof.holds
    assert proof.missing == 1
    assert proof.disorder == ("N1: from number 2 in shardId-000000000000 to 4 in shardId-000000000001",)
    assert proof.differing == ("UA",)


def test_a_key_whose_first_event_never_came_is_found(rows: Rows) -> None:
    proof = proof_of(handled(PARENT, FLIGHTS[1:3], now=10), *rows[1:])
    assert proof.missing == 1
    assert proof.disorder == ("N1: begins with number 2 in shardId-000000000000",)


def test_a_key_of_which_nothing_came_is_missing_altogether(rows: Rows) -> None:
    without = [f for f in FLIGHTS[:3] if f.partition_key == "N1"]
    proof = proof_of(handled(PARENT, without, now=10), rows[1])
    assert proof.missing == 2
    assert not proof.holds


def test_events_in_the_wrong_order_within_a_shard_are_found(rows: Rows) -> None:
    proof = proof_of(handled(PARENT, [FLIGHTS[1], FLIGHTS[0], FLIGHTS[2]], now=10), *rows[1:])
    assert not proof.holds
    assert any("did not follow the one before" in problem for problem in proof.disorder)


def test_events_that_their_producer_put_twice_count_once_and_are_told_apart(rows: Rows) -> None:
    """After a lost answer: 1 2 1 2."""
    proof = proof_of(handled(PARENT, [*FLIGHTS[:3], *FLIGHTS[:3]], now=10), *rows[1:])
    assert proof.holds, proof
    assert proof.repeated == 3
    assert replace(proof, repeated=0) == proof_of(*rows)


def test_an_event_in_two_shards_is_found(rows: Rows) -> None:
    proof = proof_of(rows[0], handled(LEFT, [FLIGHTS[1], *FLIGHTS[3:5]], now=20), rows[2])
    assert not proof.holds
    assert proof.handled == 7


def test_a_child_that_began_before_its_parent_was_finished_is_found(rows: Rows) -> None:
    early = handled(LEFT, FLIGHTS[3:5], now=9)
    problems = proof_of(rows[0], early, rows[2]).disorder
    assert len(problems) == 1
    assert "had begun before" in problems[0]


def test_a_key_that_went_to_a_shard_that_is_no_descendant_is_found(rows: Rows) -> None:
    proof = proof_of(
        handled(LEFT, FLIGHTS[:3], now=10),
        handled(RIGHT, FLIGHTS[3:5], now=20),
        handled(PARENT, FLIGHTS[5:], now=21),
    )
    assert any("does not descend from it" in problem for problem in proof.disorder)


def test_the_handlers_row_comes_back_as_it_was(rows: Rows) -> None:
    row = rows[0].row()
    assert ShardTotals.from_row(row) == rows[0]
    assert row["carriers"]["UA"] == {
        "flights": 2,
        "departed": 2,
        "departure_delay": 4,
        "arrived": 2,
        "arrival_delay": 22,
    }
    json.dumps({name: value for name, value in row.items() if name != "keys"})
