"""Signs of life: which events are sent, once each, and when the timer pauses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sublet.decisions.pull.pull_events import AwsService, EventKind, SignsOfLife

NOW = datetime(2026, 1, 31, 8, tzinfo=UTC)
HEARTBEAT = timedelta(seconds=5)


def test_a_heartbeat_is_missed_after_twice_its_interval_and_then_the_timer_restarts() -> None:
    signs = SignsOfLife(NOW)
    assert signs.look(NOW + 2 * HEARTBEAT - timedelta(seconds=1), HEARTBEAT) == (signs, None)
    signs, told = signs.look(NOW + 2 * HEARTBEAT, HEARTBEAT)
    assert told is EventKind.MISSED_HEARTBEAT
    assert signs.look(NOW + 3 * HEARTBEAT, HEARTBEAT)[1] is None


def test_answer_of_any_service_restarts_the_timer() -> None:
    signs, told = SignsOfLife(NOW).answered(AwsService.DYNAMODB, NOW + HEARTBEAT)
    assert told is None
    assert signs.look(NOW + 2 * HEARTBEAT, HEARTBEAT)[1] is None


def test_an_outage_is_reported_at_its_start_and_end_and_the_timer_pauses_meanwhile() -> None:
    signs, told = SignsOfLife(NOW).failed(AwsService.KINESIS)
    assert told is EventKind.DISCONNECTED
    assert signs.failed(AwsService.KINESIS)[1] is None
    assert signs.look(NOW + 10 * HEARTBEAT, HEARTBEAT) == (signs, None)
    signs, told = signs.answered(AwsService.KINESIS, NOW + 10 * HEARTBEAT)
    assert told is EventKind.RECONNECTED
    assert signs.unreachable == frozenset()
    assert signs.look(NOW + 11 * HEARTBEAT, HEARTBEAT)[1] is None


def test_an_answer_of_the_other_service_does_not_end_the_outage() -> None:
    signs, _ = SignsOfLife(NOW).failed(AwsService.KINESIS)
    signs, told = signs.answered(AwsService.DYNAMODB, NOW)
    assert told is None
    assert signs.unreachable == {AwsService.KINESIS}


def test_a_question_that_is_not_answered_is_missed_though_the_other_service_answers() -> None:
    signs = SignsOfLife(NOW).asked(AwsService.KINESIS, NOW)
    for seconds in range(10):
        now = NOW + timedelta(seconds=seconds)
        signs, _ = signs.asked(AwsService.DYNAMODB, now).answered(AwsService.DYNAMODB, now)
        assert signs.look(now, HEARTBEAT)[1] is None
    signs, told = signs.look(NOW + 2 * HEARTBEAT, HEARTBEAT)
    assert told is EventKind.MISSED_HEARTBEAT
    assert signs.look(NOW + 3 * HEARTBEAT, HEARTBEAT)[1] is None


def test_an_answer_to_one_question_is_a_sign_of_life_for_the_others_too() -> None:
    signs = SignsOfLife(NOW).asked(AwsService.KINESIS, NOW).asked(AwsService.KINESIS, NOW)
    signs, _ = signs.answered(AwsService.KINESIS, NOW + HEARTBEAT)
    assert signs.look(NOW + 2 * HEARTBEAT, HEARTBEAT)[1] is None
    assert signs.look(NOW + 3 * HEARTBEAT, HEARTBEAT)[1] is EventKind.MISSED_HEARTBEAT


def test_a_service_that_is_asked_nothing_owes_nothing() -> None:
    signs, _ = SignsOfLife(NOW).asked(AwsService.KINESIS, NOW).answered(AwsService.KINESIS, NOW)
    signs, _ = signs.answered(AwsService.DYNAMODB, NOW + 9 * HEARTBEAT)
    assert signs.look(NOW + 10 * HEARTBEAT, HEARTBEAT)[1] is None


def test_failed_call_is_an_outage_when_no_other_call_is_answered() -> None:
    signs, _ = SignsOfLife(NOW).asked(AwsService.KINESIS, NOW).answered(AwsService.KINESIS, NOW)
    told = []
    for seconds in (0.5, 1, 2, 3):
        now = NOW + timedelta(seconds=seconds)
        signs, kind = signs.asked(AwsService.KINESIS, now).unanswered(AwsService.KINESIS, now, is_last_word=False)
        told.append(kind)
    assert told == [None, None, EventKind.DISCONNECTED, None]
    assert signs.owed == {}


def test_a_question_that_was_asked_again_and_again_is_an_outage_at_once() -> None:
    signs, _ = SignsOfLife(NOW).asked(AwsService.KINESIS, NOW).answered(AwsService.KINESIS, NOW)
    signs, told = signs.asked(AwsService.KINESIS, NOW).unanswered(AwsService.KINESIS, NOW, is_last_word=True)
    assert told is EventKind.DISCONNECTED
