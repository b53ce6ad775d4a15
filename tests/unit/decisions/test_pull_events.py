"""Signs of life: what is told, once, and when the timer pauses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sublet.decisions.pull_events import EventKind, Service, SignsOfLife

NOW = datetime(2026, 1, 31, 8, tzinfo=UTC)
HEARTBEAT = timedelta(seconds=5)


def test_a_heartbeat_is_missed_after_twice_its_interval_and_then_the_timer_begins_anew() -> None:
    signs = SignsOfLife(NOW)
    assert signs.look(NOW + 2 * HEARTBEAT - timedelta(seconds=1), HEARTBEAT) == (signs, None)
    signs, told = signs.look(NOW + 2 * HEARTBEAT, HEARTBEAT)
    assert told is EventKind.MISSED_HEARTBEAT
    assert signs.look(NOW + 3 * HEARTBEAT, HEARTBEAT)[1] is None


def test_any_answer_sets_the_timer_anew() -> None:
    signs, told = SignsOfLife(NOW).answered(Service.DYNAMODB, NOW + HEARTBEAT)
    assert told is None
    assert signs.look(NOW + 2 * HEARTBEAT, HEARTBEAT)[1] is None


def test_an_outage_is_told_at_its_beginning_and_its_end_and_the_timer_pauses_meanwhile() -> None:
    signs, told = SignsOfLife(NOW).failed(Service.KINESIS)
    assert told is EventKind.DISCONNECTED
    assert signs.failed(Service.KINESIS)[1] is None
    assert signs.look(NOW + 10 * HEARTBEAT, HEARTBEAT) == (signs, None)
    signs, told = signs.answered(Service.KINESIS, NOW + 10 * HEARTBEAT)
    assert told is EventKind.RECONNECTED
    assert signs == SignsOfLife(NOW + 10 * HEARTBEAT)


def test_an_answer_of_the_other_service_does_not_end_the_outage() -> None:
    signs, _ = SignsOfLife(NOW).failed(Service.KINESIS)
    signs, told = signs.answered(Service.DYNAMODB, NOW)
    assert told is None
    assert signs.unreachable == {Service.KINESIS}
