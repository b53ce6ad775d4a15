"""A process announces its start and its end whenever the announcement can be written."""

from __future__ import annotations

from sublet.decisions.manager.joins_and_drains import AnnouncementKind
from sublet.engine.manager.worker_reports import announce
from sublet.errors import LeaseTableUnavailable
from sublet.testing.memory import MemorySightingStore

from tests.doubles.engine_world import CONTINUOUS, EngineWorld, raising


class OutOfReach(MemorySightingStore):
    announce = raising(LeaseTableUnavailable("timed out"))


def test_a_failed_announcement_is_logged_and_no_reason_to_fail() -> None:
    world = EngineWorld(CONTINUOUS)
    world.sightings = OutOfReach()
    announce(AnnouncementKind.JOINS, world.ports, world.settings)
    (line,) = world.log.lines
    assert (line.level, line.message) == ("warning", "could not tell the other workers")
    assert line.fields == {"what": AnnouncementKind.JOINS, "problem": "timed out"}
