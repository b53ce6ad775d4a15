"""What Prometheus is shown of a process: its consumers' values, its producers' counts, and for how long."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry, Counter
from sublet.metric_names import OF_PRODUCERS, Metric
from sublet.protocol.histogram import Histogram
from sublet.runtimes.prometheus_page import SampleCollector, page
from sublet.runtimes.scraped_metrics import GAUGE_LASTS, Sample, Scraped, ScrapedMetrics
from sublet.settings import MetricsByShard, Settings
from sublet.testing.memory import FakeClock, MemoryMetrics

from tests.promtool import promtool

SETTINGS = Settings(application="orders-audit", stream="orders")
SHARD = "shardId-000000000003"
OF_SHARD = {"application": "orders-audit", "stream": "orders", "shard_id": SHARD}


class World:
    def __init__(self, settings: Settings = SETTINGS) -> None:
        self.clock, self.inner, self.scraped = FakeClock(), MemoryMetrics(), Scraped()
        self.values = self.scraped.values_of(settings, self.clock)
        self.metrics = ScrapedMetrics(self.inner, self.values, self.clock)

    def shown(self) -> dict[tuple[str, str], float]:
        """By name and shard."""
        return {
            (each.instrument.prometheus, each.labels.get("shard_id", "")): each.value
            for each in self.scraped.samples()
            if not isinstance(each.value, Histogram)
        }


@pytest.fixture
def world() -> World:
    return World()


def test_a_value_has_the_defined_name_unit_and_labels(world: World) -> None:
    world.metrics.put(Metric.MILLIS_BEHIND_LATEST, 1_500, shard_id=SHARD)
    (sample,) = world.scraped.samples()
    assert (sample.instrument.prometheus, sample.value) == ("sublet_lag_seconds", 1.5)
    assert sample.labels == OF_SHARD


def test_counters_add_up_and_a_gauge_is_its_last_value(world: World) -> None:
    for value in (5, 3):
        world.metrics.put(Metric.RECORDS, value, shard_id=SHARD)
        world.metrics.put(Metric.THROTTLED_POLLS, value, shard_id=SHARD)
    assert world.shown() == {
        ("messaging_client_consumed_messages_total", SHARD): 8,
        ("sublet_throttled_polls", SHARD): 3,
    }


def test_every_value_is_passed_on(world: World) -> None:
    world.metrics.put(Metric.STANDSTILL_AGE, 7)
    world.metrics.put(Metric.RECORDS, 1, shard_id=SHARD)
    assert world.inner.values(Metric.STANDSTILL_AGE) == [7]
    assert world.inner.values(Metric.RECORDS) == [1]
    assert len(world.shown()) == 1, "the first is a maximum of others"


def test_a_gauge_goes_when_it_is_no_longer_put_and_a_counter_stays_for_an_hour(world: World) -> None:
    world.metrics.put(Metric.MILLIS_BEHIND_LATEST, 1_000, shard_id=SHARD)
    world.metrics.put(Metric.RECORDS, 1, shard_id=SHARD)
    world.clock.advance(GAUGE_LASTS + timedelta(seconds=1))
    assert world.shown() == {("messaging_client_consumed_messages_total", SHARD): 1}
    world.metrics.put(Metric.RECORDS, 1, shard_id=SHARD)
    assert world.shown() == {("messaging_client_consumed_messages_total", SHARD): 2}
    world.clock.advance(timedelta(hours=1, seconds=1))
    assert world.shown() == {}


def test_shards_of_many_reshards_do_not_add_up(world: World) -> None:
    for number in range(500):
        world.metrics.put(Metric.RECORDS, 1, shard_id=f"shardId-{number:012}")
        world.metrics.put(Metric.MILLIS_BEHIND_LATEST, 1, shard_id=f"shardId-{number:012}")
        world.clock.advance(timedelta(minutes=10))
        assert len(world.shown()) <= 8


def test_a_shard_of_several_streams_has_its_streams_name(world: World) -> None:
    world.metrics.put(Metric.RECORDS, 1, shard_id=f"123456789012:returns:1700000000:{SHARD}")
    (sample,) = world.scraped.samples()
    assert sample.labels == {**OF_SHARD, "stream": "returns"}


def test_held_leases_are_counted_at_the_scrape(world: World) -> None:
    held = [1, 2]
    world.metrics.put(Metric.WORKER_LEASES, 99)
    with world.values.holding(lambda: len(held)):
        assert world.shown() == {("sublet_worker_leases", ""): 2}
        held.append(3)
        assert world.shown() == {("sublet_worker_leases", ""): 3}
    assert world.shown() == {}


def test_leases_of_two_consumers_of_an_application_are_added_up(world: World) -> None:
    """Each may end before the other."""
    with world.values.holding(lambda: 5):
        with world.values.holding(lambda: 2):
            assert world.shown() == {("sublet_worker_leases", ""): 7}
        assert world.shown() == {("sublet_worker_leases", ""): 5}


def test_a_second_session_of_an_application_goes_on_counting(world: World) -> None:
    world.metrics.put(Metric.RECORDS, 4, shard_id=SHARD)
    again = ScrapedMetrics(MemoryMetrics(), world.scraped.values_of(SETTINGS, world.clock), world.clock)
    again.put(Metric.RECORDS, 3, shard_id=SHARD)
    assert world.shown() == {("messaging_client_consumed_messages_total", SHARD): 7}


@pytest.mark.parametrize("by_shard", [MetricsByShard.WORST, MetricsByShard.ALL])
def test_durations_of_calls_are_a_histogram_by_stream_or_by_shard(by_shard: MetricsByShard) -> None:
    world = World(replace(SETTINGS, metrics_by_shard=by_shard))
    for seconds, error in ((0.2, None), (99, None), (0.2, "KeyError")):
        world.metrics.put_duration(timedelta(seconds=seconds), shard_id=SHARD, error=error)
    registry = CollectorRegistry()
    registry.register(SampleCollector(world.scraped.samples))
    labels = {name: of for name, of in OF_SHARD.items() if name != "shard_id" or by_shard is MetricsByShard.ALL}
    name, failed = "messaging_process_duration_seconds", {**labels, "error_type": "KeyError"}
    assert registry.get_sample_value(f"{name}_bucket", {**labels, "le": "0.1"}) == 0
    assert registry.get_sample_value(f"{name}_bucket", {**labels, "le": "0.25"}) == 1
    assert registry.get_sample_value(f"{name}_bucket", {**labels, "le": "+Inf"}) == 2
    assert registry.get_sample_value(f"{name}_count", labels) == 2
    assert registry.get_sample_value(f"{name}_sum", labels) == 99.2
    assert registry.get_sample_value(f"{name}_count", failed) == 1
    assert len(world.inner.durations) == 3
    world.clock.advance(timedelta(hours=1, seconds=1))
    assert not list(world.scraped.samples())


class Counts:
    """A producer."""

    def __init__(self, stream: str, user_records: int, buffered: int) -> None:
        self.stream, self.user_records, self.buffered = stream, user_records, buffered

    def counts(self) -> Mapping[str, float]:
        return {"user_records": self.user_records, "buffered": self.buffered}


def test_producers_of_a_stream_are_one_and_closed_ones_still_count(world: World) -> None:
    first, second = Counts("orders", 3, 100), Counts("orders", 4, 10)
    world.scraped.add_producer(first)
    world.scraped.add_producer(second)
    sent, buffered = ("messaging_client_sent_messages_total", ""), ("sublet_producer_buffered_bytes", "")
    assert world.shown() == {sent: 7, buffered: 110}
    for _ in range(2):
        world.scraped.end_producer(first)
    assert world.shown() == {sent: 7, buffered: 10}
    del first, second
    gc.collect()
    assert world.shown() == {sent: 3}, "one that was dropped without close"


def test_the_page_passes_prometheus_own_lint_and_has_the_programs_own_metrics(world: World) -> None:
    registry = CollectorRegistry()
    registry.register(SampleCollector(lambda: whole(world)))
    Counter("orders_refused", "Orders that the shop refused.", registry=registry).inc()
    text = page("text/plain", registry)[0].decode()
    assert "orders_refused_total 1.0" in text
    code, said = promtool("check", "metrics", given=text)
    assert (code, said) == (0, "")
    opened, content_type = page("application/openmetrics-text; version=1.0.0", registry)
    assert content_type.startswith("application/openmetrics-text")
    assert opened.endswith(b"# EOF\n")


def whole(world: World) -> Iterator[Sample]:
    """Each metric once, with and without a shard."""
    for metric in Metric:
        world.metrics.put(metric, 1_000, shard_id=SHARD)
        world.metrics.put(metric, 1_000)
    world.metrics.put_duration(timedelta(seconds=1), shard_id=SHARD)
    world.scraped.add_producer(ALL)
    return world.scraped.samples()


class AllCounts:
    stream = "orders"

    def counts(self) -> Mapping[str, float]:
        return dict.fromkeys(OF_PRODUCERS, 1)


ALL = AllCounts()
