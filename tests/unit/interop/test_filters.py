"""The comparison with AWS' matcher can say no, and what it allows is what its table says."""

from __future__ import annotations

from random import Random

import pytest

from tests.interop.filters import UNKNOWN, WIDE, Case, cases, judged, sublet_delivers

ABSENT = '{"data": {"a": [{"exists": false}]}}'


def said(case: Case) -> str:
    return str(sublet_delivers(case)).lower()


@pytest.mark.parametrize("event", ['{"data": {"a": []}}', '{"data": {"a": {"b": 1}}}', '{"data": {}}'])
def test_judge_allows_no_difference_about_absent_fields(event: str) -> None:
    case = Case(ABSENT, event)
    assert judged(case, "true") == "delivered by both"
    assert judged(case, "false") == judged(case, "raised java.lang.IllegalStateException") == UNKNOWN


def test_judge_finds_records_dropped_that_aws_delivers() -> None:
    for pattern in (ABSENT, '{"data": {"a": [{"anything-but": [1]}]}}'):
        case = Case(pattern, '{"data": {"a": 1}}')
        assert judged(case, "false") == "dropped by both"
        assert judged(case, "true") == UNKNOWN


@pytest.mark.parametrize(
    ("case", "why"),
    [
        (
            Case('{"data": {"a": [{"numeric": [">", 0]}]}}', f'{{"data": {{"a": {WIDE}}}}}'),
            "a number that no double holds",
        ),
        (
            Case('{"data": {"a": [{"equals-ignore-case": "SS"}]}}', '{"data": {"a": "ß"}}'),
            "letters that become several",
        ),
        (
            Case('{"data": {"a": {"b": [{"exists": false}], "c": [1]}}}', '{"data": {"a": [{"b": 1}, {"c": 1}]}}'),
            "absent in the chosen element",
        ),
    ],
)
def test_judge_gives_a_reason_for_what_sublet_alone_delivers(case: Case, why: str) -> None:
    assert judged(case, "false") == why


def test_drawn_cases_are_delivered_and_dropped_and_repeat_for_a_seed() -> None:
    drawn = list(cases(600, Random(1)))
    assert drawn == list(cases(600, Random(1)))
    assert {judged(case, said(case)) for case in drawn} == {"delivered by both", "dropped by both"}
