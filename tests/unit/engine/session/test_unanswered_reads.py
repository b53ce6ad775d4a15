"""Reads that get no answer are said once, with the failure's own words, and so is that they are answered again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sublet.decisions.status.status_rules import Status
from sublet.operate.status_watch import Watch
from sublet.ports import PollRefusal, Refusal, Unanswered
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import decode_row, encode_row
from sublet.protocol.records import GetRecordsReply

from tests.doubles.engine_world import CONTINUOUS, MINUTE, SECOND, SHARD, EngineWorld

DNS = "Could not connect to the endpoint URL: https://kinesis.eu-west-1.amazonaws.com/"
NO, AGAIN = "reads of a shard get no answer", "reads of a shard are answered again"


def said(world: EngineWorld) -> list[tuple[str, str, Any]]:
    found = [line for line in world.log.lines if line.message in (NO, AGAIN)]
    return [(line.level, line.message, line.fields.get("problem")) for line in found]


def world_whose_polls(answers: Callable[[int], Refusal | None]) -> EngineWorld:
    world = EngineWorld(replace(CONTINUOUS, idle_poll_interval=SECOND))
    polls: list[None] = []

    def poll(really: Callable[[], GetRecordsReply | Refusal]) -> GetRecordsReply | Refusal:
        polls.append(None)
        return answers(len(polls)) or really()

    world.stream.disturb = poll
    return world


def test_unanswered_reads_are_logged_once_and_once_when_answered_again() -> None:
    world = world_whose_polls(lambda number: Unanswered(DNS) if number <= 9 else None)
    world.window(lasts=3 * MINUTE)
    assert said(world) == [("warning", NO, DNS), ("info", AGAIN, None)]


def test_row_and_status_show_unanswered_reads_until_they_are_answered() -> None:
    world = world_whose_polls(lambda number: Unanswered(DNS) if number <= 20 else None)
    began, seen = world.clock.now(), list[tuple[Status, datetime | None]]()

    def look() -> None:
        (shard,) = Watch(world.ports, world.settings, probes=False).look(None).shards
        seen.append((shard.status, shard.since))

    world.at(MINUTE, look)
    world.at(4 * MINUTE, look)
    world.window(lasts=5 * MINUTE)
    (during, since), (after, _) = seen
    assert (during, after) == (Status.FAILING, Status.OK)
    assert since is not None
    assert timedelta(0) <= since - began < MINUTE / 4
    assert "subletUnanswered" not in encode_row(world.table.lease())


def test_unanswered_mark_is_void_after_another_writer() -> None:
    row = encode_row(Lease(SHARD, Checkpoint("5"), 7, unanswered_since=EngineWorld().clock.now()))
    read = decode_row(row)
    assert isinstance(read, Lease)
    assert read.unanswered_since == EngineWorld().clock.now()
    java = decode_row({**row, "leaseCounter": {"N": "8"}})
    assert isinstance(java, Lease)
    assert java.unanswered_since is None


def test_one_or_two_unanswered_reads_are_not_logged() -> None:
    world = world_whose_polls(lambda number: None if number % 3 == 0 else Unanswered(DNS))
    world.window(lasts=3 * MINUTE)
    assert said(world) == []


def test_throttled_reads_do_not_hide_unanswered_ones() -> None:
    world = world_whose_polls(lambda number: PollRefusal.THROTTLED if number % 2 else Unanswered(DNS))
    world.window(lasts=3 * MINUTE)
    assert said(world) == [("warning", NO, DNS)]
