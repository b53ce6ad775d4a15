"""Reads that get no answer are said once, with the failure's own words, and so is that they are answered again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sublet.ports import PollRefusal, Refusal, Unanswered
from sublet.protocol.records import Polled

from tests.doubles.engine_world import CONTINUOUS, MINUTE, SECOND, EngineWorld

DNS = "Could not connect to the endpoint URL: https://kinesis.eu-west-1.amazonaws.com/"
NO, AGAIN = "reads of a shard get no answer", "reads of a shard are answered again"


def said(world: EngineWorld) -> list[tuple[str, str, Any]]:
    found = [line for line in world.log.lines if line.message in (NO, AGAIN)]
    return [(line.level, line.message, line.fields.get("problem")) for line in found]


def world_whose_polls(answers: Callable[[int], Refusal | None]) -> EngineWorld:
    world = EngineWorld(replace(CONTINUOUS, idle_poll_interval=SECOND))
    polls: list[None] = []

    def poll(really: Callable[[], Polled | Refusal]) -> Polled | Refusal:
        polls.append(None)
        return answers(len(polls)) or really()

    world.stream.disturb = poll
    return world


def test_one_warning_says_why_reads_get_no_answer_and_one_line_that_they_do_again() -> None:
    world = world_whose_polls(lambda number: Unanswered(DNS) if number <= 9 else None)
    world.window(lasts=3 * MINUTE)
    assert said(world) == [("warning", NO, DNS), ("info", AGAIN, None)]


def test_one_or_two_unanswered_reads_are_not_said() -> None:
    world = world_whose_polls(lambda number: None if number % 3 == 0 else Unanswered(DNS))
    world.window(lasts=3 * MINUTE)
    assert said(world) == []


def test_a_throttled_read_between_them_does_not_hide_it() -> None:
    world = world_whose_polls(lambda number: PollRefusal.THROTTLED if number % 2 else Unanswered(DNS))
    world.window(lasts=3 * MINUTE)
    assert said(world) == [("warning", NO, DNS)]
