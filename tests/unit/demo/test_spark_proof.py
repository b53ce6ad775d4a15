"""The proof of the demo with Spark fails for every kind of fault that it is there to find. No Spark runs here."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from demo.flights import Figures
from demo.spark.proof import Proof, prove, runs_since
from demo.spark.reader import SparkStored
from examples.flights.flights import ShardTotals

Runs = Mapping[str, list[list[int]]]


def row(shard: int, keys: Runs) -> ShardTotals:
    """Every flight late by a minute."""
    events = sum(last - first + 1 for runs in keys.values() for first, last in runs)
    return ShardTotals(f"shardId-{shard:012}", events=events, carriers={"UA": [events] * 5}, keys=dict(keys))


def stored(keys: Runs, carriers: Mapping[str, int] | None = None, rejected: int = 0) -> SparkStored:
    events = sum(last - first + 1 for runs in keys.values() for first, last in runs)
    figures = carriers if carriers is not None else {"UA": events}
    return SparkStored(events, rejected, keys, {name: [count] * 5 for name, count in figures.items()})


FIRST = [row(0, {"N1": [[1, 3]], "N2": [[1, 1]]}), row(1, {"N3": [[1, 2]]})]
SPARK: Runs = {"N1": [[4, 6]], "N2": [[2, 3]]}
LAST = [
    row(0, {"N1": [[1, 3], [7, 7]], "N2": [[1, 1]]}),
    row(1, {"N3": [[1, 4]]}),  # Spark had this shard too, and there was nothing in it
    row(2, {"N2": [[4, 5]]}),
]
EXPECTED = {"N1": 7, "N2": 5, "N3": 4}


def proof_of(
    first: list[ShardTotals] = FIRST, last: list[ShardTotals] = LAST, spark: SparkStored | None = None
) -> Proof:
    return prove(first, last, spark or stored(SPARK), EXPECTED, {"UA": Figures(16, 16, 16, 16, 16)})


def test_holds_when_each_key_goes_on_from_hand_to_hand() -> None:
    proof = proof_of()
    assert proof.holds, proof
    assert [(part.runtime, part.events) for part in proof.parts] == [
        ("Lambda", 6),
        ("Spark", 5),
        ("Lambda", 5),
    ]
    assert (proof.missing, proof.overlap, proof.out_of_turn) == (0, 0, 0)


def test_runs_since_lists_the_runs_that_a_key_gained() -> None:
    assert runs_since(FIRST, LAST) == {"N1": [(7, 7)], "N3": [(3, 4)], "N2": [(4, 5)]}
    assert runs_since(LAST, LAST) == {}


@pytest.mark.parametrize(
    ("spark", "missing", "overlap"),
    [
        ({"N1": [[4, 5]], "N2": [[2, 3]]}, 1, 0),  # one that no table has
        ({"N1": [[3, 6]], "N2": [[2, 3]]}, 0, 1),  # one that the fleet had before
        ({"N1": [[4, 7]], "N2": [[2, 3]]}, 0, 1),  # one that the fleet had afterwards
        ({"N1": [[4, 6], [5, 6]], "N2": [[2, 3]]}, 0, 2),  # a batch that is there twice
        (
            {"N1": [[4, 4], [6, 6]], "N2": [[1, 3]]},
            1,
            1,
        ),  # as many as there should be, and not the right ones
    ],
)
def test_a_missing_number_or_one_that_came_twice(spark: Runs, missing: int, overlap: int) -> None:
    proof = proof_of(spark=stored(spark, {"UA": 5}))
    assert not proof.holds
    assert (proof.missing, proof.overlap) == (missing, overlap)


def test_the_right_numbers_in_the_wrong_order() -> None:
    proof = proof_of(spark=stored({"N1": [[5, 6], [4, 4]], "N2": [[2, 3]]}))
    assert (proof.missing, proof.overlap, proof.out_of_turn) == (0, 0, 1)
    assert not proof.holds


def test_a_later_event_on_lambda_before_an_earlier_one_on_spark() -> None:
    first = [row(0, {"N1": [[1, 3], [7, 7]], "N2": [[1, 1]]}), FIRST[1]]
    proof = proof_of(first=first)
    assert (proof.missing, proof.overlap, proof.out_of_turn) == (0, 0, 1)


def test_figures_and_rejected_rows_count_too() -> None:
    assert proof_of(spark=stored(SPARK, {"UA": 4})).differing == ("UA",)
    assert proof_of(spark=stored(SPARK, {"UA": 5, "AA": 1})).differing == ("AA",)
    assert not proof_of(spark=stored(SPARK, rejected=1)).holds


def test_proof_fails_when_one_side_handled_nothing() -> None:
    everything = prove([], LAST, stored(SPARK), EXPECTED, {"UA": Figures(16, 16, 16, 16, 16)})
    assert (everything.missing, everything.overlap) == (0, 0)
    assert not everything.holds
