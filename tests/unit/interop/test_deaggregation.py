"""The comparison with Java can say no, and what it allows is what its table says."""

from __future__ import annotations

from random import Random

import pytest
from sublet.protocol.shard import FULL_RANGE, HASH_KEY_MAX, HashKeyRange

from tests.interop.aggregates import GROUP, Case, cases, delimited, framed, number
from tests.interop.deaggregation import OWN_KEY, UNKNOWN, Given, java_gives, judged, sublet_gives
from tests.interop.java_protobuf import as_java_reads, varint

KEYS = delimited(1, b"a") + delimited(1, b"b")
X = Given(0, "a", None, b"x")
"""By the MD5 of its key, in the lower half of the hash keys."""
LOWER, UPPER = HashKeyRange(0, HASH_KEY_MAX // 2), HashKeyRange(HASH_KEY_MAX // 2 + 1, HASH_KEY_MAX)


def row(data: bytes, key: int = 0, explicit: int | None = None) -> bytes:
    return delimited(3, number(1, key) + (b"" if explicit is None else number(2, explicit)) + delimited(3, data))


def of(*fields: bytes) -> Case:
    return Case(framed(KEYS + b"".join(fields)), FULL_RANGE)


@pytest.mark.parametrize(
    ("case", "given"),
    [
        (of(row(b"x"), row(b"y", 9), row(b"z")), [X]),
        (of(row(b"x", 2**32)), [X]),
        (of(row(b"x", 2**31)), []),
        (of(delimited(2, b"twelve"), row(b"x"), row(b"y", 0, 0)), [X]),
        (of(delimited(2, b"+5"), row(b"x", 0, 0)), [Given(0, "a", "+5", b"x")]),
        (of(delimited(2, b"-5"), row(b"x"), row(b"y", 0, 0)), []),
        (of(delimited(2, b"5"), row(b"x", 0, 3)), []),
    ],
    ids=["index", "index cut to 32 bits", "negative index", "no number", "a sign", "a sign, outside", "explicit index"],
)
def test_judge_allows_only_javas_result_for_a_senseless_record(case: Case, given: list[Given]) -> None:
    assert java_gives(case) == given
    assert judged(case, given) == "senseless, whole from sublet"
    assert judged(case, [*given, X]) == UNKNOWN
    assert judged(case, [Given(0, OWN_KEY, None, case.data)]) == UNKNOWN


def test_sensible_records_may_not_differ() -> None:
    case = of(row(b"x"))
    assert judged(case, [X]) == "taken apart alike"
    for gave in (
        [],
        [X._replace(data=b"y")],
        [X._replace(partition_key="b")],
        [X, X],
        "raised OutOfMemoryError",
    ):
        assert judged(case, gave) == UNKNOWN
    assert judged(Case(case.data, UPPER), []) == "nothing from either"
    assert judged(Case(case.data, LOWER), [X]) == "taken apart alike"


def test_judge_knows_that_java_cuts_a_wide_tag_which_sublet_delivers_plain() -> None:
    wide = varint(2**32 + (9 << 3)) + b"\x01"
    case = of(row(b"x"), wide)
    assert as_java_reads(KEYS + row(b"x") + wide) == KEYS + row(b"x") + number(9, 1)
    assert judged(case, [X]) == "beyond 32 bits, plain to sublet"
    assert judged(case, [Given(0, OWN_KEY, None, case.data)]) == UNKNOWN
    for same in (KEYS + row(b"x") + GROUP, KEYS + b"\x0f", b"\x3b\x08", b"\xff" * 11, b"\x1a\x05"):
        assert as_java_reads(same) == same


def test_drawn_cases_cover_every_kind_and_repeat_for_a_seed() -> None:
    drawn = list(cases(600, Random(1)))
    assert drawn == list(cases(600, Random(1)))
    found = {judged(case, java_gives(case)) for case in drawn}
    assert found == {
        "plain",
        "taken apart alike",
        "nothing from either",
        "senseless, whole from sublet",
        "beyond 32 bits, plain to sublet",
    }
    assert any(sublet_gives(case).is_whole for case in drawn)
