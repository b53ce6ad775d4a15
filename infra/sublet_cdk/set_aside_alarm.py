"""The alarm before a queue deletes what was set aside in it."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from aws_cdk import Token
from constructs import Construct
from sublet_cdk.alarm_kinds import Alarm, Figure, Source
from sublet_cdk.failure_destination import Destination
from sublet_cdk.places import is_elsewhere

SQS_DEFAULT = timedelta(days=4)
"""How long SQS keeps messages by default; 14 days is the maximum."""
WARNED_AFTER = 0.75
"""The fraction of the retention period after which the alarm fires."""
HOUR = timedelta(hours=1)


class SetAsideQueue(NamedTuple):
    """A failure destination that is a queue. `kept_for`: how long it keeps messages; SQS' default if that is not
    known.
    """

    name: str
    kept_for: timedelta = SQS_DEFAULT


def set_aside_queue(scope: Construct, destination: Destination | None) -> SetAsideQueue | None:
    """Returns None for a topic or a bucket, and for a queue that is known to be of another region or account, because
    its metrics are there too.
    """
    if destination is None or destination.service != "sqs" or is_elsewhere(scope, destination.arn):
        return None
    if destination.queue is None:
        return SetAsideQueue(destination.arn.rpartition(":")[2])
    seconds = getattr(destination.queue.node.default_child, "message_retention_period", None)
    if not isinstance(seconds, int | float) or Token.is_unresolved(seconds):
        return SetAsideQueue(destination.queue.queue_name)
    return SetAsideQueue(destination.queue.queue_name, timedelta(seconds=seconds))


def set_aside_alarm(kept_for: timedelta = timedelta(days=14)) -> Alarm:
    """Watches the age of the queue's oldest message. A message that was received three times no longer counts, says
    SQS' guide.
    """
    threshold = kept_for * WARNED_AFTER
    return Alarm(
        "SetAsideForgotten",
        {"figure": Figure("ApproximateAgeOfOldestMessage", "Maximum", Source.FAILURE_QUEUE)},
        HOUR // timedelta(minutes=1),
        1,
        f"records that were set aside have waited for {_days(threshold)}, and their queue deletes them after "
        f"{_days(kept_for)}",
        "Repair the handler, then run `sublet redrive`. `sublet doctor` says how much waits, and until when.",
        points=1,
        threshold=threshold.total_seconds(),
        at_destination=True,
    )


def _days(duration: timedelta) -> str:
    days = duration / timedelta(days=1)
    return f"{days:g} days" if days != 1 else "a day"
