"""Saying that a process joins, asks for leases, or leaves (`decisions.announcing`)."""

from __future__ import annotations

from collections.abc import Mapping

from sublet.decisions.announcing import NOTHING_ANNOUNCED, Announcement, What, long_lapsed
from sublet.errors import LeaseTableError
from sublet.ports import Ports
from sublet.settings import Settings


def announce(
    what: What,
    ports: Ports,
    settings: Settings,
    announced: Mapping[str, Announcement] = NOTHING_ANNOUNCED,
) -> None:
    """One write, and one for each of `announced` that lapsed long ago. That it could not be said is no reason to fail: others
    then see at their next tick what has become of the leases.
    """
    said = Announcement(what, ports.clock.now())
    try:
        for worker_id in settings.own_worker_ids:
            ports.sightings.announce(worker_id, said, long_lapsed(announced, said.at, settings))
    except LeaseTableError as problem:
        ports.log.warning("could not announce", what=what, problem=str(problem))
