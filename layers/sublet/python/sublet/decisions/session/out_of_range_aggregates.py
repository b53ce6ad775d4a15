"""Whether an aggregate outside its shard's hash key range may be dropped, as KCL does. A dropped record is lost for
good.

KCL assumes that the KPL put such an aggregate into the wrong shard just after a reshard and will send it again. On a
stream that distributes records itself (`RecordDistribution.AUTO`) every aggregate may be out of range, none is sent
again, and KCL loses them (docs.aws.amazon.com/streams/latest/dev/service-managed-pk-kpl-aggregation.html). So we drop
an aggregate only if it is known that the stream did not place it. Otherwise we keep it: at worst its records come
twice.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from sublet.protocol.stream_info import Placement, RecordDistribution

ASK_SOONEST, ASK_LATEST = timedelta(seconds=1), timedelta(minutes=5)
"""The pauses between the descriptions that one process asks for. After a reshard, strays come within seconds and are
worth some calls. A producer whose aggregates are all out of range is not.
"""


class KeptBecause(StrEnum):
    """Why an aggregate is not dropped."""

    AUTO = "the stream distributes records itself"
    WAS_AUTO = "the stream distributed records itself within its retention"
    NOT_STATED = "descriptions of the stream do not say what places records"
    NOT_DESCRIBED = "the stream has not been described since the record arrived"


def why_kept(arrived: datetime, known: Placement) -> KeptBecause | None:
    """Why to keep an aggregate that is out of range and arrived at that time; None if it was put into the wrong shard,
    and is sent again.

    Only a description younger than the record applies to it. A description with AUTO, now or within the stream's
    retention, applies to all records in the stream.
    """
    last = known.last
    if last is None or last.at < arrived:
        return KeptBecause.NOT_DESCRIBED
    if last.distribution is RecordDistribution.AUTO:
        return KeptBecause.AUTO
    if last.distribution is None:
        return KeptBecause.NOT_STATED
    if known.auto_seen_at is not None and known.auto_seen_at > last.at - last.retention:
        return KeptBecause.WAS_AUTO
    return None


def ask_again_after(pause: timedelta | None) -> timedelta:
    """The pause before the next description. `pause` is the previous pause; None for the first."""
    return ASK_SOONEST if pause is None else min(2 * pause, ASK_LATEST)
