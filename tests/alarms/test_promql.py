"""The PromQL alarms, evaluated by a real Prometheus over what a fleet has sent: a healthy one raises none, and each
shard that stands still is named in time. Ticks that are missing are a classic alarm's, as are AWS' own metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import cache

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from sublet.metric_names import Attribute
from sublet.settings import MetricsLevel
from sublet_cdk.alarm_kinds import Source
from sublet_cdk.alarm_pace import AlarmThresholds
from sublet_cdk.promql import PromQLAlarm, promql_alarms

from tests.alarms.cloudwatch import LATE_MINUTES, RETRIEVED_BEYOND, is_on
from tests.alarms.fleet import Fleet
from tests.alarms.healthy import month
from tests.alarms.prometheus import MISSING, Prometheus, escaped, is_found, prometheus, states, with_escaped_names
from tests.alarms.stories import ALWAYS, EACH_FIVE, EACH_HOUR, EACH_MINUTE, STORIES, Way, lived, silent_minutes
from tests.doubles.engine_world import MINUTE
from tests.doubles.otlp_service import Point
from tests.exploring import explores

needs_prometheus = pytest.mark.skipif(not is_found(), reason=MISSING)
LATE = LATE_MINUTES * MINUTE
SHARD = escaped(Attribute.SHARD.otlp)
STREAM, APPLICATION = escaped(Attribute.STREAM.otlp), escaped(Attribute.APPLICATION.otlp)
SLOW = (pytest.mark.slow, explores, pytest.mark.timeout(400))

On = Mapping[int, frozenset[str]]
"""By minute, the alarms that are on; PromQL alarms with a contributor's shard, as `StandstillByShard shardId-0`."""


@cache
def alarms(way: Way, application: str) -> tuple[PromQLAlarm, ...]:
    return (*promql_alarms(way.pace, AlarmThresholds(), application, on_lambda=True),)


def sent(fleet: Fleet, application: str) -> Iterator[Point]:
    """The fleet's points, under another name: one Prometheus has those of many fleets."""
    assert fleet.exported is not None
    named = {"messaging.consumer.group.name": application, "@resource.service.name": application}
    for point in fleet.exported.points():
        yield replace(point, labels={**point.labels, **named})


def on(fleet: Fleet, way: Way, server: Prometheus, application: str, minutes: range) -> On:
    assert fleet.exported is not None
    found: dict[int, set[str]] = {minute: set() for minute in minutes}
    for alarm in alarms(way, application):
        for labels, fired in states(alarm, server, fleet.exported.began, minutes, LATE).items():
            of = dict(labels)
            assert (of[APPLICATION], of[STREAM]) == (application, fleet.settings.stream)
            for minute in fired:
                found[minute].add(f"{alarm.name} {of.get(SHARD, '')}".rstrip())
    for classic in way.alarms(MetricsLevel.LEAN):
        if {figure.source for figure in classic.figures.values()} != {Source.APPLICATION}:
            for minute in minutes:
                if is_on(classic, fleet.recorded[MetricsLevel.LEAN], minute):
                    found[minute].add(classic.name)
    return {minute: frozenset(names) for minute, names in found.items()}


@needs_prometheus
@pytest.mark.parametrize(
    "way",
    [EACH_FIVE, *(pytest.param(way, marks=explores) for way in (EACH_MINUTE, EACH_HOUR, ALWAYS))],
    ids=lambda way: way.name,
)
def test_each_shard_that_stands_still_is_named_in_time(way: Way) -> None:
    """Within 15 minutes, or three ticks if that is longer, and nothing is on before."""
    fleets = {f"orders-{number}": (story, *lived(story, way, 1)) for number, story in enumerate(STORIES)}
    points = (point for application, (_, fleet, *_) in fleets.items() for point in sent(fleet, application))
    with prometheus(points) as server:
        for application, (story, fleet, minutes, broke_at) in fleets.items():
            found = on(fleet, way, server, application, minutes)
            assert {name for minute, names in found.items() if minute <= broke_at for name in names} == set(), story
            assert silent_minutes(fleet, way, {minute: [*names] for minute, names in found.items()}) == (), story
            if story != NO_LEASE:
                assert unnamed(fleet, way, found) == set(), story


NO_LEASE = "one row is malformed"
"""So that no shard is known; the alarm names application and stream, and the log the row."""

TELL_WHAT_STOPS_ALL = {"TicksMissing", "WorkerThrottled", "ExecutionsFailing", "ManagerFailing", "WorkerCrashing"}
"""Alarms on AWS' own metrics. What they say concerns every shard."""


def unnamed(fleet: Fleet, way: Way, found: On) -> set[tuple[str, int]]:
    """Shards, with minutes, in which one has stood still for too long, and no alarm on it or on all of them is on."""
    return {
        (shard_id, minute)
        for shard_id, seen in fleet.stalled.items()
        for minute, since in seen
        if minute - since > way.noticed_within and minute in found
        if not any(name.endswith(f" {shard_id}") or name in TELL_WHAT_STOPS_ALL for name in found[minute])
    }


@needs_prometheus
@pytest.mark.parametrize(
    "way",
    [EACH_HOUR, *(pytest.param(way, marks=SLOW) for way in (EACH_FIVE, EACH_MINUTE, ALWAYS))],
    ids=lambda way: way.name,
)
def test_a_healthy_fleet_raises_no_promql_alarm_in_a_day(way: Way) -> None:
    fleet = month(way, 1, exports=True)
    judged = range((way.most_periods() + RETRIEVED_BEYOND) * way.pace.span, fleet.minute())
    with prometheus(sent(fleet, "orders")) as server:
        assert {minute: names for minute, names in on(fleet, way, server, "orders", judged).items() if names} == {}


@needs_prometheus
def test_a_contributor_fires_after_its_pending_period_and_ends_after_its_recovery() -> None:
    """Of two shards, one is over the threshold for nine minutes."""
    lasting = next(each for each in alarms(EACH_MINUTE, "orders") if each.name == "LeasesFailingByShard")
    lasting = replace(lasting, recovery=timedelta(minutes=3))
    assert lasting.pending == timedelta(minutes=6)
    began = month_of_nothing().world.clock.now()
    labels = {"messaging.consumer.group.name": "orders", "messaging.destination.name": "events"}

    def point(minute: int, shard_id: str) -> Point:
        of = {**labels, "messaging.destination.partition.id": shard_id}
        return Point("sublet.leases_failed", of, began + minute * MINUTE, 1)

    points = [*(point(minute, "shardId-0") for minute in range(10, 20)), point(10, "shardId-1")]
    with prometheus(points) as server:
        found = {dict(of)[SHARD]: fired for of, fired in states(lasting, server, began, range(40), LATE).items()}
    begins_before_3 = {28}  # until Prometheus 3, a range has its first moment too
    assert found["shardId-0"] - begins_before_3 == frozenset(range(11 + 6, 25 + 3))
    assert found["shardId-1"] == frozenset(), "a single event is no lasting trouble"


def month_of_nothing() -> Fleet:
    return Fleet(EACH_MINUTE.settings, EACH_MINUTE.gap)


def test_ten_shards_send_less_than_half_a_gigabyte_a_month() -> None:
    """docs/metrics.md says how much: by CloudWatch's guide, each point's bytes with its name and its resource."""
    fleet = Fleet(EACH_MINUTE.settings, EACH_MINUTE.gap, shards=10, exports=True)
    fleet.run(30, lambda _: fleet.produce())
    assert fleet.exported is not None
    size = sum(map(billed, (body for _, body in fleet.exported.requests)))
    assert 0.40 < size / 30 * 60 * 24 * 30 / 1e9 < 0.46


def billed(body: bytes) -> int:
    message = json_format.Parse(body, ExportMetricsServiceRequest())
    return sum(
        point.ByteSize() + len(metric.name) + len(metric.unit) + of_resource.resource.ByteSize()
        for of_resource in message.resource_metrics
        for of_scope in of_resource.scope_metrics
        for metric in of_scope.metrics
        for point in (*metric.gauge.data_points, *metric.sum.data_points)
    )


@pytest.mark.parametrize(
    ("query", "escaped_query"),
    [
        ('{"sublet.lag","a.b"="c.d"}[5m]', '{__name__="U__sublet_2e_lag",U__a_2e_b="c.d"}[5m]'),
        (
            'max by ("a.b","c") ({"x_y.z"}) > 3 or {"u", "v"=~"w"}',
            'max by (U__a_2e_b,c) ({__name__="U__x__y_2e_z"}) > 3 or {__name__="u",v=~"w"}',
        ),
    ],
)
def test_names_in_utf_8_are_escaped_for_an_older_prometheus(query: str, escaped_query: str) -> None:
    assert with_escaped_names(query) == escaped_query
