"""Whether an aggregate out of its shard's hash key range may be dropped, as KCL does: nothing that is dropped can be had again.

KCL takes such an aggregate for one that the KPL put into the wrong shard just after a reshard, and sends again. On a stream that
distributes records itself (`RecordDistribution.AUTO`) every aggregate may be out of range, none is sent again, and KCL loses them
(docs.aws.amazon.com/streams/latest/dev/service-managed-pk-kpl-aggregation.html). So one is dropped only where the stream is known
not to have placed it; what is kept for want of knowledge may be a repeat, and never a loss.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from sublet.protocol.stream_info import Placement, RecordDistribution

ASK_SOONEST, ASK_LATEST = timedelta(seconds=1), timedelta(minutes=5)
"""Between two descriptions that one process asks for. A reshard's strays come within seconds, and are worth some calls; not so a
producer all of whose aggregates are out of range."""


class Kept(StrEnum):
    """Why an aggregate is not dropped."""

    AUTO = "the stream distributes records itself"
    WAS_AUTO = "the stream distributed records itself within its retention"
    NOT_TOLD = "descriptions of the stream do not tell who places records"
    NOT_DESCRIBED = "the stream has not been described since the record arrived"


def why_kept(arrived: datetime, known: Placement) -> Kept | None:
    """None: an aggregate that arrived then and is out of range was put into the wrong shard, and is sent again.

    Only a description that is younger than the record speaks of it. One that says AUTO, or said so within the stream's retention,
    speaks for all that are there.
    """
    last = known.last
    if last is None or last.at < arrived:
        return Kept.NOT_DESCRIBED
    if last.distribution is RecordDistribution.AUTO:
        return Kept.AUTO
    if last.distribution is None:
        return Kept.NOT_TOLD
    if known.auto_seen_at is not None and known.auto_seen_at > last.at - last.retention:
        return Kept.WAS_AUTO
    return None


def ask_again_after(pause: timedelta | None) -> timedelta:
    """The pause before the next question, after one of `pause`: None for the first."""
    return ASK_SOONEST if pause is None else min(2 * pause, ASK_LATEST)
