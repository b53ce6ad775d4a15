"""Lag, from Spark's report of a query's progress. test_spark_source tests that Spark reports it."""

from __future__ import annotations

import json
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from sublet.metric_names import Metric
from sublet.spark import LagListener, ShardLag, lag, report_lag
from sublet.spark.option_table import parse_options
from sublet.spark.options import UseOfLeases
from sublet.spark.source.query_lag import SHOWN_EVERY
from sublet.testing.memory import FakeClock, MemoryMetrics

QUERY_ID = UUID(int=7)


def progress(*latest_offsets: object, rows: int = 5) -> Any:
    """One source for each latest offset."""
    sources = [{"latestOffset": each, "numInputRows": rows} for each in latest_offsets]
    return SimpleNamespace(json=json.dumps({"sources": sources}))


def told(stream: str = "orders", **millis: int) -> dict[str, object]:
    return {"stream": stream, "millisBehindLatest": millis, "maxMillisBehindLatest": max(millis.values())}


class Streams:
    """`spark.streams`, with one query or none."""

    def __init__(self, query: Any = None) -> None:
        self.query = query
        self.listeners: list[LagListener] = []

    def addListener(self, listener: LagListener) -> None:  # noqa: N802 -- Spark's name
        self.listeners.append(listener)

    def get(self, id: str) -> Any:  # noqa: A002 -- Spark's name
        assert id == str(QUERY_ID)
        return self.query


def listener(query: Any = None, stream: str = "orders") -> tuple[LagListener, MemoryMetrics, FakeClock]:
    metrics, clock = MemoryMetrics(), FakeClock()
    return LagListener(Streams(query), stream, metrics, clock), metrics, clock


def test_lag_of_every_shard_of_every_source_of_ours() -> None:
    others = [None, "not JSON", "7", {"offset": 3}]
    last = progress(*others, told(a=0, b=1500), json.dumps(told("payments", a=20)))
    assert lag(SimpleNamespace(lastProgress=last)) == (
        ShardLag("orders", "a", timedelta(0)),
        ShardLag("orders", "b", timedelta(seconds=1.5)),
        ShardLag("payments", "a", timedelta(milliseconds=20)),
    )


def test_the_lag_of_several_streams_names_each_one() -> None:
    several = {
        "stream": "orders,audit",
        "millisBehindLatest": {"123456789012:orders:1:shardId-0": 5, "123456789012:audit:2:shardId-0": 7},
    }
    query = SimpleNamespace(lastProgress=progress(several))
    assert [(each.stream, each.shard_id) for each in lag(query)] == [
        ("orders", "shardId-0"),
        ("audit", "shardId-0"),
    ]


def test_lag_is_unknown_before_the_first_batch() -> None:
    assert lag(SimpleNamespace(lastProgress=None)) == ()


def test_the_metrics_are_the_fleets_own() -> None:
    listens, metrics, _ = listener()
    listens.onQueryProgress(SimpleNamespace(progress=progress(told(a=0, b=1500), told("payments", a=20))))
    assert metrics.values(Metric.MILLIS_BEHIND_LATEST, shard_id="a") == [0]
    assert metrics.values(Metric.MILLIS_BEHIND_LATEST, shard_id="b") == [1500]
    assert metrics.values(Metric.RECORDS) == [5]


ARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"


@pytest.mark.parametrize("given", ["orders", ARN, "orders,audit", f"{ARN},audit", "ord*@LATEST"])
def test_metrics_whether_the_stream_is_given_by_its_name_its_arn_or_with_others(given: str) -> None:
    listens, metrics, _ = listener(stream=given)
    reported = parse_options({"stream": given}, UseOfLeases.STREAM).stream
    listens.onQueryProgress(SimpleNamespace(progress=progress(told(reported, a=1500))))
    assert metrics.values(Metric.MILLIS_BEHIND_LATEST, shard_id="a") == [1500]


def test_an_idle_query_tells_its_lag_too_unless_it_has_ended() -> None:
    listens, metrics, _ = listener(SimpleNamespace(lastProgress=progress(told(a=30), rows=0)))
    listens.onQueryIdle(SimpleNamespace(id=QUERY_ID))
    assert metrics.values(Metric.MILLIS_BEHIND_LATEST, shard_id="a") == [30]
    assert metrics.values(Metric.RECORDS) == [], "the batch's own event counts them"
    listens, metrics, _ = listener(None)
    listens.onQueryIdle(SimpleNamespace(id=QUERY_ID))
    assert metrics.measurements == []


def test_flushed_each_minute_and_when_the_query_ends() -> None:
    listens, metrics, clock = listener()
    event = SimpleNamespace(progress=progress(told(a=0)))
    for expected in (0, 1, 1, 2):
        listens.onQueryProgress(event)
        assert metrics.flushes == expected
        clock.advance(SHOWN_EVERY - timedelta(seconds=1) if expected == 1 else SHOWN_EVERY)
    listens.onQueryTerminated(SimpleNamespace())
    assert metrics.flushes == 3


def test_reported_on_standard_output_as_the_fleet_reports(capsys: pytest.CaptureFixture[str]) -> None:
    streams = Streams()
    report_lag(SimpleNamespace(streams=streams), application="orders-audit", stream="orders")
    [listens] = streams.listeners
    listens.onQueryProgress(SimpleNamespace(progress=progress(told(a=1500))))
    listens.onQueryTerminated(SimpleNamespace())
    for_all, of_shard = map(json.loads, capsys.readouterr().out.splitlines())
    assert (for_all["application"], for_all["millis_behind_latest"], for_all["records"]) == (
        "orders-audit",
        [1500],
        [5],
    )
    assert (of_shard["application"], of_shard["shard_id"], of_shard["millis_behind_latest"]) == (
        "orders-audit",
        "a",
        [1500],
    )
