"""An announcement makes other processes look often for a while, and nothing is stolen before all of them have read
it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sublet.decisions.manager.choose_leases import ClaimReason, LeaseChoice
from sublet.decisions.manager.joins_and_drains import (
    LEAVES_WITHIN,
    Announcement,
    AnnouncementKind,
    ask_first,
    asked_for,
    heard_within,
    is_heard,
    joins_again_after,
    long_lapsed,
    next_look,
    standing,
)
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.lease import Lease
from sublet.settings import Mode, Settings
from sublet.testing.memory.clock import BEGINNING

SETTINGS = Settings(
    application="orders",
    stream="events",
    worker_id="me",
    mode=Mode.CONTINUOUS,
    failover_time=timedelta(seconds=30),
)
TICK = timedelta(seconds=20)
SECOND = timedelta(seconds=1)
NOW = BEGINNING + timedelta(hours=1)
NOTHING = timedelta(0)


def said(
    ago: timedelta, what: AnnouncementKind = AnnouncementKind.JOINS, who: str = "another"
) -> dict[str, Announcement]:
    return {who: Announcement(what, NOW - ago)}


def after(announced: dict[str, Announcement], leases: int = 8, workers: int = 4) -> timedelta:
    return next_look(announced, NOW, leases, workers, SETTINGS).after


def test_next_scan_is_the_next_tick_while_nothing_is_announced() -> None:
    assert next_look({}, NOW, 8, 4, SETTINGS) == (TICK, "nothing is announced")


def test_announcement_makes_others_scan_each_second_until_it_lapses() -> None:
    assert next_look(said(NOTHING, AnnouncementKind.LEAVES), NOW, 8, 4, SETTINGS) == (SECOND, "another leaves")
    assert after(said(3 * TICK - SECOND)) == SECOND
    assert after(said(3 * TICK)) == TICK


def test_announcement_by_a_clock_far_ahead_has_lapsed() -> None:
    assert after(said(-3 * TICK)) == TICK
    assert not is_heard(said(-TICK), NOW, SETTINGS)


def test_next_scan_is_due_when_a_silent_owner_counts_as_lost() -> None:
    """The tick after next would be up to a third of failover_time late."""
    soon = NOW + timedelta(seconds=7)
    assert next_look({}, NOW, 8, 4, SETTINGS, soon).after == timedelta(seconds=7)
    assert next_look({}, NOW, 8, 4, SETTINGS, NOW).after == SECOND, "many of them, one by one"
    assert next_look({}, NOW, 1_000, 50, SETTINGS, NOW).after == timedelta(seconds=2.5)
    assert next_look({}, NOW, 8, 4, SETTINGS, NOW + TICK) == (TICK, "nothing is announced")


def test_looking_more_often_is_bounded() -> None:
    """All processes scan all leases at each look."""
    assert after(said(NOTHING), leases=1_000, workers=50) == timedelta(seconds=2.5)
    assert after(said(NOTHING), leases=10_000, workers=200) == TICK
    slow = replace(SETTINGS, failover_time=timedelta(hours=1))
    assert next_look(said(NOTHING), NOW, 8, 4, slow).after == timedelta(minutes=1), "40 looks in a tick"


@pytest.mark.parametrize(
    ("ago", "heard"), [(0, False), (20.9, False), (21, True), (55, True), (55.1, False), (60, False)]
)
def test_announcement_is_heard_from_one_tick_after_it_until_it_nearly_lapses(ago: float, heard: bool) -> None:
    assert is_heard(said(timedelta(seconds=ago)), NOW, SETTINGS) is heard


def test_announcement_is_heard_at_once_while_workers_still_look_often() -> None:
    """A rolling deployment: one joins and another leaves, before what was said first lapses."""
    announced = said(timedelta(seconds=90), who="1") | said(timedelta(seconds=45), who="2")
    assert is_heard(announced | said(NOTHING, who="3"), NOW, SETTINGS)
    later = said(timedelta(seconds=90), who="1") | said(timedelta(seconds=29), who="2")
    assert is_heard(later, NOW, SETTINGS), "by itself: the first had lapsed"
    assert not is_heard(said(timedelta(seconds=90), who="1") | said(timedelta(seconds=5), who="2"), NOW, SETTINGS)


def test_new_announcement_keeps_workers_looking_often_if_the_last_has_not_lapsed() -> None:
    soon_over = said(timedelta(seconds=57))
    assert not is_heard(soon_over, NOW, SETTINGS)
    assert is_heard(soon_over | said(NOTHING, who="2"), NOW, SETTINGS)
    assert not is_heard(said(3 * TICK) | said(NOTHING, who="2"), NOW, SETTINGS), "the first has just lapsed"


def test_requested_lease_is_waited_for_at_most_half_a_failover_time() -> None:
    assert asked_for(SETTINGS) == 5 * SECOND
    assert asked_for(replace(SETTINGS, failover_time=6 * SECOND, heartbeat_interval=SECOND)) == 3 * SECOND


def test_announcement_is_heard_at_the_shortest_failover_time_too() -> None:
    quick = replace(SETTINGS, failover_time=timedelta(seconds=3), heartbeat_interval=SECOND)
    assert is_heard(said(timedelta(seconds=3)), NOW, quick)


STOLEN = LeaseChoice(Lease("shardId-0", TRIM_HORIZON, 7, "another"), "me", ClaimReason.STEAL)
FREE = LeaseChoice(Lease("shardId-1", TRIM_HORIZON, 7), "me", ClaimReason.FREE)


def test_steal_waits_until_its_announcement_is_heard() -> None:
    assert ask_first([STOLEN, FREE], {}, NOW, SETTINGS) == ((FREE,), True)
    mine = said(SECOND, AnnouncementKind.ASKS, "me")
    assert ask_first([STOLEN, FREE], mine, NOW, SETTINGS) == ((FREE,), False), "it is said already"
    mine = said(TICK + SECOND, AnnouncementKind.ASKS, "me")
    assert ask_first([STOLEN, FREE], mine, NOW, SETTINGS) == ((STOLEN, FREE), False)


def test_choices_without_a_steal_are_not_announced() -> None:
    assert ask_first([FREE], {}, NOW, SETTINGS) == ((FREE,), False)


def test_leaving_process_is_not_stolen_from() -> None:
    leaves = said(TICK + SECOND, AnnouncementKind.LEAVES)
    assert ask_first([STOLEN, FREE], leaves, NOW, SETTINGS) == ((FREE,), False)
    expired = LeaseChoice(STOLEN.lease, STOLEN.worker_id, ClaimReason.EXPIRED)
    assert ask_first([expired], leaves, NOW, SETTINGS) == ((expired,), False), "it has left without a word"


def test_leaving_process_keeps_its_leases_until_it_is_heard() -> None:
    assert heard_within({}, NOW, False, SETTINGS) == LEAVES_WITHIN, "and not for a tick of 20 s"
    quick = replace(SETTINGS, failover_time=timedelta(seconds=6), heartbeat_interval=SECOND)
    assert heard_within({}, NOW, False, quick) == timedelta(seconds=5)


def test_leaving_process_releases_at_once_when_alone_or_already_heard() -> None:
    assert heard_within(said(TICK + SECOND), NOW, False, SETTINGS) == NOTHING
    assert heard_within({}, NOW, True, SETTINGS) == NOTHING


def test_announcement_is_forgotten_long_after_it_lapsed() -> None:
    old, lapsed = said(timedelta(minutes=10), who="old"), said(timedelta(minutes=2), who="lapsed")
    assert standing(old | lapsed, NOW, SETTINGS) == {}
    assert long_lapsed(old | lapsed, NOW, SETTINGS) == {"old"}


def test_the_pause_before_another_attempt_to_join_doubles_up_to_five_seconds() -> None:
    assert [joins_again_after(failures) / SECOND for failures in (1, 2, 3, 4, 1000)] == [1, 2, 4, 5, 5]
