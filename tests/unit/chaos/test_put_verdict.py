"""The verdict over what producers put fails for each kind of fault that it is there to find."""

from __future__ import annotations

import pytest

from tests.chaos.put_programs import PutRecords
from tests.chaos.put_verdict import judge


def record(number: int, key: str = "a") -> bytes:
    return f"{key}:{number}:...".encode()


def put(numbers: int) -> PutRecords:
    known = PutRecords()
    known.put["a"] = numbers
    known.acknowledged |= {record(number) for number in range(1, numbers + 1)}
    return known


def wrong(known: PutRecords, *numbers: int, unanswered: tuple[int, ...] = ()) -> list[str]:
    _, problems = judge(known, map(record, numbers), {record(number) for number in unanswered})
    return problems


def test_verdict_is_clean_when_records_come_once_in_order() -> None:
    assert wrong(put(3), 1, 2, 3) == []


def test_a_batch_of_a_lost_answer_may_come_again() -> None:
    assert wrong(put(4), 1, 2, 3, 2, 3, 4, unanswered=(2, 3)) == []


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [
        ((1, 2), "lost: b'a:3:...'"),
        ((1, 3, 2), "a: 3 comes after 1"),
        ((1, 2, 2, 3), "a: 2 comes again, though no answer was lost"),
        ((2, 1, 3), "a: 2 comes after 0"),
    ],
)
def test_verdict_finds_lost_reordered_and_repeated_records(numbers: tuple[int, ...], problem: str) -> None:
    assert problem in wrong(put(3), *numbers)


def test_a_repeat_that_leaves_some_out_is_found() -> None:
    assert wrong(put(4), 1, 2, 3, 1, 3, 4, unanswered=(1, 2, 3)) == ["a: 3 comes after 1"]


def test_a_record_of_which_nothing_is_known_is_found() -> None:
    known = put(3)
    known.acknowledged.discard(record(3))
    assert wrong(known, 1, 2, 3) == ["it is not known what came of 1 records"]


def test_a_record_that_was_given_up_is_found_and_its_gap_is_not() -> None:
    known = put(3)
    known.acknowledged.discard(record(2))
    known.given_up[record(2)] = "RecordTimedOut()"
    assert wrong(known, 1, 3) == ["given up: b'a:2:...': RecordTimedOut()"]
