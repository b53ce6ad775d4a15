"""Calls that wait out transient failures, as long as their patience lasts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from sublet.errors import StreamAccessDenied, StreamUnavailable, StreamUnreachable
from sublet.protocol.shard import Shard
from sublet.settings import StartPosition
from sublet.spark.read.patient import PatientStream
from sublet.testing.memory import FakeClock, MemoryStream

PATIENCE = timedelta(seconds=60)


class Failing(MemoryStream):
    """Lists its shards once the errors are used up."""

    def __init__(self, errors: Iterator[Exception]) -> None:
        super().__init__(2)
        self.errors = errors

    def list_shards(self, at: StartPosition | None = None) -> tuple[Shard, ...]:
        for error in self.errors:
            raise error
        return super().list_shards(at)


def patient(*errors: Exception) -> tuple[PatientStream, FakeClock]:
    clock = FakeClock()
    return PatientStream(Failing(iter(errors)), clock, clock.advance, PATIENCE), clock


def test_a_listing_that_is_throttled_for_a_while_is_waited_for() -> None:
    stream, clock = patient(*[StreamUnavailable("throttled")] * 5)
    since = clock.steady()
    assert len(stream.list_shards()) == 2
    assert timedelta(seconds=10) < clock.steady() - since < timedelta(seconds=30)


def test_patient_stream_raises_after_its_patience() -> None:
    stream, clock = patient(*[StreamUnavailable("throttled")] * 100)
    since = clock.steady()
    with pytest.raises(StreamUnavailable):
        stream.list_shards()
    assert PATIENCE < clock.steady() - since < PATIENCE + timedelta(seconds=10)


def test_a_first_call_without_any_reply_fails_at_once_and_a_later_one_is_repeated() -> None:
    stream, clock = patient(StreamUnreachable("no reply"))
    since = clock.steady()
    with pytest.raises(StreamUnreachable):
        stream.list_shards()
    assert clock.steady() == since
    stream.describe()
    stream._inner.errors = iter([StreamUnreachable("no reply")])  # type: ignore[attr-defined]
    assert len(stream.list_shards()) == 2


def test_error_that_does_not_pass_is_raised_at_once() -> None:
    stream, clock = patient(StreamAccessDenied("no"))
    since = clock.steady()
    with pytest.raises(StreamAccessDenied):
        stream.list_shards()
    assert clock.steady() == since
