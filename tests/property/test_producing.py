"""The producer's promises hold in random worlds: nothing is lost, nothing comes twice without cause, and each key keeps
its order.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import chain

import pytest
from msgspec.structs import replace as replace_struct
from sublet.decisions.putting.outbox import ProducerRules, QueuedRecord
from sublet.errors import RecordTimedOut
from sublet.protocol.stream_info import PutRecord

from tests.doubles.producing_world import ProducingWorld, delivered, numbers_by_key, queued
from tests.exploring import first

RULES = ProducerRules(rate_limit=None)


def arrivals(world: ProducingWorld, count: int = 1_500, keys: int = 25) -> list[list[QueuedRecord]]:
    seen: Counter[str] = Counter()
    made: list[list[QueuedRecord]] = [[]]
    for _ in range(count):
        key = f"k{world.chance.randrange(keys)}"
        seen[key] += 1
        data = f"{key}:{seen[key]}:".encode().ljust(world.chance.choice([20, 120, 400]), b".")
        made[-1].append(queued(data, key, world.clock.steady()))
        if world.chance.random() < 0.05:
            made.append([])
    return made


def drawn(seed: int, rules: ProducerRules, *, loses: float) -> ProducingWorld:
    chance = random.Random(seed)
    rules = replace(
        rules,
        aggregation_enabled=chance.random() < 0.7,
        aggregation_max_size=chance.choice([600, 3_000, 51_200]),
        max_connections=chance.choice([1, 2, 8]),
        record_max_buffered_time=timedelta(milliseconds=chance.choice([0, 20, 100])),
    )
    return ProducingWorld(
        rules,
        chance,
        shards=chance.choice([1, 2, 5]),
        refuses=chance.choice([0, 0.1, 0.4]),
        loses=loses,
        reshards=chance.choice([0, 3, 10]),
        lists_late=chance.random() < 0.5,
    )


def put(world: ProducingWorld) -> Sequence[bytes]:
    made = arrivals(world)
    world.run(made)
    return [record.data for some in made for record in some]


@pytest.mark.parametrize("seed", first(12, range(300)))
def test_records_arrive_once_and_in_order_of_their_key_without_a_lost_answer(seed: int) -> None:
    world = drawn(seed, RULES, loses=0)
    sent = put(world)
    assert numbers_by_key(delivered(world.stream)) == numbers_by_key(sent)
    assert {type(outcome) for outcome in world.outcomes.values()} == {PutRecord}
    assert world.producing.produced.user_records == len(sent)
    assert world.largest_call <= 500


@pytest.mark.parametrize("seed", first(12, range(300)))
def test_a_lost_answer_repeats_records_and_loses_none(seed: int) -> None:
    """Each key's records come for the first time in order."""
    world = drawn(seed, RULES, loses=0.15)
    sent = put(world)
    for key, numbers in numbers_by_key(delivered(world.stream)).items():
        assert list(dict.fromkeys(numbers)) == numbers_by_key(sent)[key]
    assert set(delivered(world.stream)) == set(sent)


@pytest.mark.parametrize("seed", first(12, range(300)))
def test_unordered_records_arrive_once(seed: int) -> None:
    world = drawn(seed, replace(RULES, ordered=False), loses=0)
    sent = put(world)
    assert sorted(delivered(world.stream)) == sorted(sent)


@pytest.mark.parametrize("seed", first(4, range(100)))
def test_each_record_says_truly_whether_it_was_given_up(seed: int) -> None:
    """An impatient producer: what is given up may be there, what is not given up is."""
    world = drawn(seed, replace(RULES, patience=timedelta(milliseconds=60)), loses=0.2)
    world.refuses = 0.6
    sent = put(world)
    assert world.outcomes.keys() == set(sent)
    there = Counter(delivered(world.stream))
    given_up = [data for data, outcome in world.outcomes.items() if not isinstance(outcome, PutRecord)]
    assert all(isinstance(world.outcomes[data], RecordTimedOut) for data in given_up)
    assert all(there[data] for data in sent if data not in given_up)
    assert world.producing.produced.given_up == len(given_up)


@pytest.mark.parametrize("seed", first(12, range(300)))
def test_acknowledged_records_arrive_in_order_when_the_stream_is_recreated(seed: int) -> None:
    """Its shards have the same ids as before, and other ranges. What was put into the former stream went with it."""
    world = drawn(seed, RULES, loses=0)
    world.recreates = 3
    sent = put(world)
    per_stream = [delivered(stream) for stream in world.streams]
    there = set(chain.from_iterable(per_stream))
    acknowledged = {data for data, outcome in world.outcomes.items() if isinstance(outcome, PutRecord)}
    assert acknowledged == set(sent)
    assert acknowledged <= there
    for found in per_stream:
        for numbers in numbers_by_key(found).values():
            assert numbers == sorted(numbers)


def test_producer_delivers_all_when_sequence_numbers_contradict_listings() -> None:
    """As with an emulator that begins its numbers anywhere: its listings contradict them."""
    world = drawn(1, replace(RULES, max_connections=8), loses=0)
    world.numbered = lambda at: replace_struct(at, sequence_number=str(int(at.sequence_number) + (1 << 150)))
    sent = put(world)
    assert sorted(delivered(world.stream)) == sorted(sent)
    assert world.producing.produced.user_records == len(sent)
