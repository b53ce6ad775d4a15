"""ADR-37's options of a pull: defaults, limits, what they refuse, and when a buffer is filled up again."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from sublet.decisions.pull.pull_request import (
    BufferDemand,
    FetchProgress,
    PullSize,
    as_duration,
    buffering_of,
    checked_parallelism,
    consume_of,
    fetch_of,
    patience_of,
    together,
)
from sublet.decisions.session.read_position import LONGEST_RETENTION
from sublet.errors import SettingsError

TENS = tuple(range(0, 110, 10))
"""Ten records of ten bytes: the bytes of the first none, one, two ... of them."""

SECOND = timedelta(seconds=1)


def test_a_fetch_needs_a_number_of_records_or_of_bytes() -> None:
    with pytest.raises(SettingsError, match="max_records"):
        fetch_of(None, None)


@pytest.mark.parametrize(
    "given", [{name: value} for name in ("max_records", "max_bytes") for value in (0, "3", 1.5, True)]
)
def test_a_maximum_is_at_least_one(given: dict[str, Any]) -> None:
    for of in (
        partial(fetch_of, **{"max_records": None, "max_bytes": None} | given),
        partial(consume_of, **given),
    ):
        with pytest.raises(SettingsError, match="at least 1"):
            of()
    assert consume_of(**dict.fromkeys(given, 1)).max_records >= 1


def test_a_fetch_is_over_at_its_count() -> None:
    fetch = fetch_of(2, None)
    for _ in range(2):
        assert not fetch.is_over
        fetch = fetch.give(10) or fetch
    assert fetch.is_over
    assert fetch.demand().max_records == 0


def test_fetch_demands_the_rest_of_its_records_and_bytes() -> None:
    fetch = fetch_of(5, None).give(10)
    assert fetch is not None
    assert fetch.demand() == BufferDemand(4, None, 4, 0)
    fetch = fetch_of(None, 25).give(10)
    assert fetch is not None
    assert fetch.demand() == BufferDemand(999_999, 15, 999_999, 15)


def test_a_fetch_is_over_before_its_bytes_would_be_exceeded() -> None:
    fetch = fetch_of(None, 25).give(10)
    assert fetch is not None
    assert fetch.give(16) is None
    assert fetch.give(15) == FetchProgress(1_000_000, 25, PullSize(2, 25), is_full=True)


def test_fetch_gives_one_record_larger_than_its_bytes() -> None:
    fetch = fetch_of(None, 25).give(100)
    assert fetch is not None
    assert fetch.is_over


def test_a_fetch_is_filled_up_at_any_time() -> None:
    assert fetch_of(10, None).demand().is_low(PullSize(9, 90))


def test_a_consume_that_says_nothing_has_500_records_and_a_threshold_of_half() -> None:
    assert consume_of() == BufferDemand(500, None, 250, 0)


def test_max_bytes_buffers_any_number_of_records() -> None:
    assert consume_of(max_bytes=1000) == BufferDemand(1_000_000, 1000, 0, 500)


def test_max_records_and_max_bytes_are_refused_together() -> None:
    with pytest.raises(SettingsError, match="max_bytes"):
        consume_of(max_records=10, max_bytes=1000)


@pytest.mark.parametrize(
    "given",
    [
        {"threshold_records": 11},
        {"threshold_records": -1},
        {"threshold_records": "5"},
        {"threshold_bytes": 5},
    ],
)
def test_threshold_is_refused_beyond_its_maximum(given: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="threshold"):
        consume_of(max_records=10, **given)


@pytest.mark.parametrize("threshold", [0, 10])
def test_threshold_may_be_zero_or_the_maximum(threshold: int) -> None:
    assert consume_of(max_records=10, threshold_records=threshold).threshold_records == threshold
    assert consume_of(max_bytes=10, threshold_bytes=threshold).threshold_bytes == threshold


def test_a_threshold_of_bytes_needs_their_maximum() -> None:
    with pytest.raises(SettingsError, match=r"threshold_bytes.*allowed only with max_bytes"):
        consume_of(threshold_bytes=5)


def test_arguments_of_messages_and_consume_become_a_buffer_and_a_patience() -> None:
    buffering = buffering_of(max_bytes=100, threshold_bytes=20, expires=10, idle_heartbeat=2)
    assert buffering == (consume_of(max_bytes=100, threshold_bytes=20), patience_of(10, 2))
    assert buffering_of() == (consume_of(), patience_of())


def test_a_buffer_is_low_at_its_threshold_of_records_or_of_bytes() -> None:
    by_records = consume_of(max_records=10, threshold_records=5)
    assert [by_records.is_low(PullSize(n, 1000)) for n in (5, 6)] == [True, False]
    by_bytes = consume_of(max_bytes=100, threshold_bytes=50)
    assert [by_bytes.is_low(PullSize(7, n)) for n in (50, 51)] == [True, False]
    assert not by_records.is_low(PullSize(6, 0)), "of records without data"


def test_a_buffer_of_one_record_is_filled_up_when_it_is_empty() -> None:
    demand = consume_of(max_records=1)
    assert demand.is_low(PullSize())
    assert demand.takes(TENS, 0, PullSize()) == 1
    assert demand.takes(TENS, 1, PullSize(1, 10)) == 0
    assert not demand.is_low(PullSize(1, 10))


def test_bytes_are_bounded_but_for_one_record() -> None:
    demand = consume_of(max_bytes=100)
    assert demand.takes((0, 1000, 2000), 0, PullSize()) == 1
    assert demand.takes((0, 10, 50, 90), 1, PullSize(1, 60)) == 1
    assert demand.takes((0, 10, 51), 1, PullSize(1, 60)) == 0
    assert BufferDemand(1, 5).takes(TENS, 0, PullSize()) == 1, "one in records too"


def test_before_low_counts_the_records_above_the_threshold() -> None:
    assert consume_of(max_records=10, threshold_records=4).before_low(TENS, 0, PullSize(10, 100)) == 5
    assert consume_of(max_records=10, threshold_records=4).before_low(TENS, 0, PullSize(4, 40)) == 0
    assert consume_of(max_bytes=100, threshold_bytes=40).before_low(TENS, 2, PullSize(8, 80)) == 3
    bytewise = tuple(range(101))
    assert consume_of(max_bytes=100, threshold_bytes=40).before_low(bytewise, 0, PullSize(100, 100)) == 59


def test_demand_takes_the_fewer_of_its_records_and_bytes() -> None:
    assert BufferDemand(3, 100).takes(TENS, 0, PullSize(1, 10)) == 2
    assert BufferDemand(30, 40).takes(TENS, 0, PullSize(1, 10)) == 3


def test_demands_of_several_pulls_add_up() -> None:
    assert together([consume_of(max_records=10), consume_of(max_bytes=100)]) == BufferDemand(1_000_010, None, 5, 50)
    assert together([consume_of(max_bytes=100), consume_of(max_bytes=50)]) == BufferDemand(2_000_000, 150, 0, 75)
    assert together([consume_of(max_bytes=100)]) == consume_of(max_bytes=100)
    assert together([]).max_records == 0


def test_the_heartbeat_is_half_of_expires_within_its_limits() -> None:
    assert patience_of(10).idle_heartbeat == 5 * SECOND
    assert patience_of(1).idle_heartbeat == SECOND / 2
    assert patience_of(100).idle_heartbeat == 30 * SECOND


def test_expires_is_half_a_minute_and_at_least_a_second() -> None:
    assert patience_of().expires == 30 * SECOND
    with pytest.raises(SettingsError, match="expires"):
        patience_of(0.9)


@pytest.mark.parametrize("expires", ["5", float("nan"), float("inf"), 1e300, timedelta(days=366), None], ids=str)
def test_a_duration_is_a_number_of_seconds_that_there_may_be(expires: Any) -> None:
    with pytest.raises(SettingsError, match=r"expires = .*: a number of seconds|expires = .*: at most 365 days"):
        patience_of(expires)


@pytest.mark.parametrize(("expires", "why"), [(True, "a number"), (-1, "not negative"), (-SECOND, "not negative")])
def test_a_duration_is_a_number_and_not_negative(expires: Any, why: str) -> None:
    with pytest.raises(SettingsError, match=f"delay = .*: {why}"):
        as_duration("delay", expires)


def test_an_option_that_no_buffer_takes_is_refused_with_those_it_takes() -> None:
    with pytest.raises(TypeError, match="'batch': messages and consume take max_records, max_bytes"):
        buffering_of(batch=5)


def test_a_duration_is_at_most_as_long_as_kinesis_keeps_any_record() -> None:
    assert patience_of(LONGEST_RETENTION).expires == LONGEST_RETENTION
    with pytest.raises(SettingsError, match="at most 365 days"):
        patience_of(LONGEST_RETENTION + SECOND)


@pytest.mark.parametrize("heartbeat", [0.4, 31])
def test_a_heartbeat_is_half_a_second_to_half_a_minute(heartbeat: float) -> None:
    with pytest.raises(SettingsError, match="idle_heartbeat"):
        patience_of(30, heartbeat)


@pytest.mark.parametrize("heartbeat", [0.5, 30])
def test_heartbeat_may_be_either_bound(heartbeat: float) -> None:
    assert patience_of(timedelta(minutes=1), heartbeat).idle_heartbeat == heartbeat * SECOND


@pytest.mark.parametrize("count", [0, -1])
def test_partition_by_key_is_refused_below_one(count: int) -> None:
    with pytest.raises(SettingsError, match="partition_by_key"):
        checked_parallelism(count)
