"""Describes a stream once for all processes of an application: an account has 20 calls of DescribeStreamSummary a
second.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from sublet.decisions.manager.describe_again import PATIENCE, DescriptionDoubt, is_being_described, is_known
from sublet.ports import Remembered, SightingStore, Signal
from sublet.protocol.stream_info import Placement, StreamDescription

SECOND = timedelta(seconds=1)


def shared_placement(
    describe: Callable[[], StreamDescription],
    sightings: SightingStore,
    pause: Signal,
    remembered: Remembered,
    now: datetime,
) -> Placement:
    """One process at a time makes the call and stores the answer; the others wait for it, and call themselves after
    `PATIENCE`.

    Raises what `describe` and the sightings' store raise.
    """
    waited = timedelta(0)
    while not is_known(remembered.placement, now, DescriptionDoubt.NONE):
        is_ours = not is_being_described(remembered.asked_at, now + waited) and sightings.begin_describing(
            now + waited, remembered
        )
        if is_ours or waited >= PATIENCE:
            placement = remembered.placement.with_description(describe())
            sightings.keep_placement(placement, now + waited)
            return placement
        if remembered.placement.last is not None:
            break
        pause.wait(SECOND)
        waited += SECOND
        remembered = sightings.load()
    return remembered.placement
