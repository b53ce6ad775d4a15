"""What a load costs in each design, and which design is chosen."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sublet.operate.rules.cost import (
    LOG_BYTES_PER_WINDOW,
    WRITES_PER_WINDOW,
    PricedDesign,
    StreamLoad,
    cheapest,
    offers,
)
from sublet.operate.rules.prices import CATCH_UP_WINDOWS, COUNTED_LOG_BYTES, COUNTED_WRITES, fan_out
from sublet.settings import MetricsByShard, MetricsLevel

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
QUIET = StreamLoad(100, 0, 0)
BUSY = StreamLoad(100, 50, 50_000)


def named(load: StreamLoad, start: str) -> list[PricedDesign]:
    return [offer for offer in offers(load) if offer.name.startswith(start)]


@pytest.mark.parametrize("mode", CATCH_UP_WINDOWS)
def test_writes_and_log_bytes_of_a_window_equal_the_counted_ones(mode: str) -> None:
    windows = CATCH_UP_WINDOWS[mode]
    assert COUNTED_WRITES[mode] == WRITES_PER_WINDOW * windows
    assert COUNTED_LOG_BYTES[mode] == pytest.approx(LOG_BYTES_PER_WINDOW * windows, rel=0.05)


def test_the_cheapest_comes_first() -> None:
    totals = [offer.total for offer in offers(BUSY)]
    assert totals == sorted(totals)
    assert len(totals) == 24


def test_a_slower_schedule_is_cheaper_and_its_records_are_later() -> None:
    for packing in ("10 leases", "1 lease"):
        by_latency = sorted(
            (offer for offer in named(BUSY, "catch_up") if packing in offer.name),
            key=lambda offer: offer.latency,
        )
        assert len(by_latency) == 6
        totals = [offer.total for offer in by_latency]
        assert totals == sorted(totals, reverse=True)


def test_packing_ten_leases_is_cheaper_than_one() -> None:
    ten, one = (
        next(offer for offer in named(BUSY, "catch_up every 1 minute") if packing in offer.name)
        for packing in ("10 leases", "1 lease")
    )
    assert ten.runs < one.runs / 5


def test_event_source_mapping_is_free_for_a_quiet_stream_and_priced_for_a_busy_one() -> None:
    assert all(offer.total == 0 for offer in named(QUIET, "Lambda's"))
    at_once, *_ = sorted(named(BUSY, "Lambda's"), key=lambda offer: offer.latency)
    ten_times = StreamLoad(100, 500, 500_000)
    assert named(ten_times, "Lambda's")[0].total > named(BUSY, "Lambda's")[0].total
    assert at_once.latency == SECOND


def test_full_batches_of_a_mapping_are_invocations_whatever_its_window() -> None:
    """Ten megabytes a second in one shard's worth of payloads of 4.5 MB cannot wait for five minutes."""
    large = StreamLoad(10, 100, 10e6)
    waiting = next(offer for offer in named(large, "Lambda's") if "5 minutes" in offer.name)
    hours, price_of_invocations = 730 * 3600, 0.2e-6
    assert waiting.total > 10e6 / 4.5e6 * hours * price_of_invocations


def test_cost_offers_no_mode_that_cannot_keep_up() -> None:
    slow = StreamLoad(1, 990, 1e6, handler=timedelta(milliseconds=1))
    assert not named(slow, "catch_up every 1 minute")
    assert named(slow, "continuous")


@pytest.mark.parametrize(
    ("latency", "ours", "name"),
    [
        (90 * SECOND, True, "catch_up every 1 minute, 10 leases"),
        (5 * MINUTE, True, "catch_up every 4 minutes, 10 leases"),
        (2 * SECOND, True, "sublet run on Fargate, 50 shards"),
        (2 * SECOND, False, "Lambda's event source mapping"),
        (SECOND / 2, False, "sublet run on Fargate, 50 shards in 1 CPU and 2 GB, by fan-out"),
    ],
)
def test_the_cheapest_for_a_latency(latency: timedelta, ours: bool, name: str) -> None:
    found = cheapest(offers(BUSY), latency, ours=ours)
    assert found is not None
    assert found.name.startswith(name)


def test_fan_out_costs_by_the_shard_and_by_the_gigabyte() -> None:
    """A shard's month is 730 hours at $0.015; 50 KB a second are 131 GB in it, at $0.013."""
    for name in ("continuous, 10 leases", "sublet run on Fargate, 10 shards"):
        polled, pushed = sorted(named(BUSY, name), key=lambda offer: offer.total)
        assert pushed.total - polled.total == pytest.approx(100 * 730 * 0.015 + 131.4 * 0.013)
        assert pushed.latency < polled.latency
        assert "reading=fan_out" in pushed.needs


def test_fan_out_cost_assumes_a_kilobyte_a_second_and_shard() -> None:
    assert fan_out(10) == pytest.approx(10 * 730 * 0.015 + 10 * 3600 * 730 * 1e-6 * 0.013, abs=1e-9)


def test_cheapest_finds_no_offer_within_a_millisecond() -> None:
    assert cheapest(offers(BUSY), timedelta(milliseconds=1), ours=False) is None


def test_metrics_by_shard_are_counted_for_sublet_alone() -> None:
    with_, without = (
        offers(BUSY, metrics_by_shard=by_shard) for by_shard in (MetricsByShard.WORST, MetricsByShard.NONE)
    )
    assert offers(BUSY) == without
    cheaper = {offer.name: offer.total for offer in without}
    for offer in with_:
        assert (cheaper[offer.name] < offer.total) is offer.is_ours


def test_each_of_several_streams_has_metrics_and_alarms_of_its_own() -> None:
    one, ten = (
        {each.name: each for each in offers(BUSY, monitoring=MetricsLevel.FULL, streams=streams)} for streams in (1, 10)
    )
    more = {round(ten[name].beside - each.beside, 6) for name, each in one.items() if each.is_ours}
    assert more == {round(10 * (3 * 0.30 + 3 * 0.10), 6)}
    assert offers(BUSY, streams=10) == offers(BUSY, streams=1), "lean names no stream"


def test_no_worker_is_paid_for_where_nothing_comes() -> None:
    """As docs/cost.md has it: about a dollar a month for 100 quiet shards at a tick each minute."""
    (quiet,) = (each for each in named(QUIET, "catch_up every 1 minute, 10") if each.is_ours)
    (busy,) = (each for each in named(BUSY, "catch_up every 1 minute, 10") if each.is_ours)
    assert quiet.runs < 2 < 30 < busy.runs
    assert QUIET.shards_with_records(MINUTE) == 0
    assert BUSY.shards_with_records(MINUTE) == 100
    assert 1 <= StreamLoad(1000, 1 / 60, 100).shards_with_records(MINUTE) <= 2
