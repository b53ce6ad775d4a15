"""Asks the stream how far two applications' positions are apart, in time and records."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from sublet.engine.position_times import positions
from sublet.operate.positions.seek_estimate import records_between
from sublet.operate.rules.position_differences import PositionDifference, Standing, between
from sublet.ports import Ports

AT_ONCE = 10


def with_times(found: Sequence[PositionDifference], ports: Ports) -> Sequence[PositionDifference]:
    """Adds times and records where a shard stands at two places. Makes four calls for each of these, and four more for
    the records. Raises what Stream raises, except transient errors.
    """
    asked = [each for each in found if each.standing in (Standing.BEHIND, Standing.AHEAD)]
    if not asked:
        return found
    first = positions([each.first for each in asked if each.first is not None], ports)
    second = positions([each.second for each in asked if each.second is not None], ports)
    now, slots = ports.stream.service_time(), ports.tasks.slots(AT_ONCE)

    def timed(each: PositionDifference) -> PositionDifference:
        assert each.first is not None
        assert each.second is not None
        one, other = first.get(each.first.lease_key), second.get(each.second.lease_key)
        span = None if one is None or other is None else between(one, other, now)
        if span is None:
            return each
        with slots:
            return replace(each, time=span[1] - span[0], records=records_between(each.shard_id, *span, ports))

    tasks = {each.shard_id: ports.tasks.spawn(partial(timed, each)) for each in asked}
    return [tasks[each.shard_id].result() if each.shard_id in tasks else each for each in found]
