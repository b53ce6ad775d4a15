"""The alarms of single streams: the stream in trouble is named in time, no other is, and a healthy day is silent."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sublet.handler import Batch
from sublet_cdk.alarm_pace import AlarmThresholds

from tests.alarms.streams_fleet import MINUTE, StreamsFleet
from tests.exploring import explores

STREAMS = {"orders": 2, "payments": 1, "audit": 1}
"""Shards by name. Nothing comes in audit."""
BUSY = ("orders", "payments")
HEALTHY = 30
NOTICED_WITHIN = 15
HOUR = 60


def failing(fleet: StreamsFleet, stream: str) -> None:
    def handle(batch: Batch) -> None:
        if batch.stream == stream:
            raise ValueError("poison")

    fleet.handles = handle


def failing_on_one_shard(fleet: StreamsFleet, stream: str) -> None:
    def handle(batch: Batch) -> None:
        if batch.shard_id == fleet.world.shard(stream):
            raise ValueError("poison")

    fleet.handles = handle


@pytest.mark.parametrize("breaks", [failing, failing_on_one_shard])
@pytest.mark.parametrize("stream", BUSY)
def test_a_stalled_stream_of_several_is_named(stream: str, breaks: Callable[[StreamsFleet, str], None]) -> None:
    fleet = StreamsFleet(STREAMS)
    fleet.run(HEALTHY, lambda _: fleet.produce(*BUSY))
    assert (fleet.named(), fleet.found()) == ([], [])
    breaks(fleet, stream)
    fleet.run(NOTICED_WITHIN, lambda _: fleet.produce(*BUSY))
    assert f"StreamStalled-{stream}" in fleet.named()
    assert {name.partition("-")[2] for name in fleet.named()} == {stream}
    assert fleet.found() == fleet.named()


def test_stream_alarm_ends_once_the_stream_is_read() -> None:
    fleet = StreamsFleet(STREAMS)
    failing(fleet, "orders")
    fleet.run(HEALTHY, lambda _: fleet.produce(*BUSY))
    assert "StreamStalled-orders" in fleet.named()
    fleet.handles = lambda _: None
    fleet.run(2 * NOTICED_WITHIN, lambda _: fleet.produce(*BUSY))
    assert (fleet.named(), fleet.found()) == ([], [])


def test_a_stream_that_falls_behind_is_named_although_another_is_at_its_tip() -> None:
    """Its handler gets on, but too slowly: nothing is stalled."""
    fleet = StreamsFleet(STREAMS, batch_size=1)

    def slow(batch: Batch) -> None:
        if batch.stream == "payments":
            fleet.world.tasks.sleep(1.5 * MINUTE)

    fleet.handles = slow
    fleet.run(2 * HOUR, lambda _: fleet.produce(*BUSY))
    assert fleet.named() == ["StreamLagging-payments"] == fleet.found()
    at = AlarmThresholds(stream_lag_hours=0.1)
    assert fleet.named(at) == ["StreamAtRisk-payments", "StreamLagging-payments"] == fleet.found(at)


def healthy(minutes: int) -> list[tuple[int, str]]:
    """Records come in orders and payments every day until eight in the evening, in audit once an hour."""
    fleet, on = StreamsFleet(STREAMS), list[tuple[int, str]]()

    def minute(now: int) -> None:
        on.extend((now, name) for name in {*fleet.named(), *fleet.found()})
        if now % (24 * HOUR) < 20 * HOUR:
            fleet.produce(*BUSY, *(["audit"] if now % HOUR == 0 else []))
        if now % (24 * HOUR) == 9 * HOUR:
            real = fleet.world.streams["orders"].real
            real.split(next(shard.shard_id for shard in real.list_shards() if shard.is_open))

    fleet.run(minutes, minute)
    return on


@pytest.mark.parametrize(
    "minutes",
    [2 * HOUR, pytest.param(24 * HOUR, marks=(pytest.mark.slow, explores, pytest.mark.timeout(600)))],
    ids=["two hours", "a day"],
)
def test_a_healthy_fleet_of_several_streams_is_silent(minutes: int) -> None:
    assert healthy(minutes) == []
