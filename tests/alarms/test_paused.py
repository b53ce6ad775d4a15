"""A paused fleet stands still on purpose: no alarm for a stall fires until its records come close to the end of
retention.
"""

from __future__ import annotations

from datetime import timedelta

import pytest
from sublet.protocol.control import Control, Order, Pause

from tests.alarms.fleet import Fleet
from tests.alarms.stories import EACH_FIVE, alarms_on

STALLS = {"ShardUnread", "OwnerStalled", "ShardStalled", "UnclaimedLeases", "Lagging", "WorkersGone"}
DAY = 24 * 60
RUN_UP = 120


@pytest.mark.slow
def test_alarms_are_silent_while_paused_until_half_of_the_retention_is_used_up() -> None:
    """24 hours in this stream. A fleet that is resumed before has none on either."""
    fleet = Fleet(EACH_FIVE.settings, EACH_FIVE.gap)

    def produce(minute: int) -> None:
        if minute % 5 == 0:
            fleet.produce()

    fleet.run(RUN_UP, produce)
    fleet.world.control.keep_control(Control(Pause(Order.PAUSE, fleet.world.clock.now(), "anna@desk")))
    paused_at = fleet.minute()
    fleet.produce()
    half = (fleet.world.shards.describe().retention / 2) // timedelta(minutes=1)
    fleet.run(half - 30)
    silent = alarms_on(fleet, EACH_FIVE, range(paused_at + 30, fleet.minute()))
    assert {name for names in silent.values() for name in names} & STALLS == set()
    fleet.run(90)
    loud = alarms_on(fleet, EACH_FIVE, range(paused_at + half + 30, fleet.minute()))
    assert all("ShardUnread" in names for names in loud.values())
