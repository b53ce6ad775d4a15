"""What to do about a stream's fan-out consumer that is known by its name: look for it, wait for it, or poll instead.

An application of several streams has a consumer of the same name on each of them, as KCL has. One that is deleted and
registered again has another ARN, so a lost consumer is looked for again. Times are by the steady clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

CREATED_WITHIN = timedelta(minutes=1)
"""How long a shard waits for a consumer that is being created. Creation takes some seconds; Kinesis does not say how
many.
"""

LOOKED_AT_EVERY = timedelta(seconds=1)
"""The time between looks while a consumer is created."""

LOOKED_FOR_EVERY = timedelta(minutes=1)
"""The time between looks while there is no consumer. A look is one call; DescribeStreamConsumer allows 20 a second for
each stream.
"""


class ConsumerStanding(StrEnum):
    """What Kinesis says of the consumer."""

    ACTIVE = "active"
    CREATING = "being created"
    BUSY = "not registered yet: Kinesis registers five at a time"
    MISSING = "not registered, or being deleted"
    NO_ROOM = "not registered: the stream has as many consumers as it may have"


_COMES = (ConsumerStanding.CREATING, ConsumerStanding.BUSY)


class ConsumerLookup(StrEnum):
    """What a reader of the stream does next."""

    LOOK = "ask Kinesis"
    USE = "subscribe"
    WAIT = "wait for its creation"
    POLL = "poll instead"


@dataclass(frozen=True, slots=True)
class KnownConsumer:
    """What a process knows about one stream's consumer.

    standing     None: it has to be looked for
    coming_since when its present creation was first seen
    was_there    it has been seen, or this process has registered it. It is not registered again, because an operator
                 who deregisters it wants to stop paying for it
    """

    arn: str | None = None
    standing: ConsumerStanding | None = None
    looked_at: datetime | None = None
    coming_since: datetime | None = None
    was_there: bool = False

    def seen(self, standing: ConsumerStanding, arn: str | None, now: datetime) -> KnownConsumer:
        """The state after a look, and the registration that followed."""
        comes = standing in _COMES
        is_there = standing in (ConsumerStanding.ACTIVE, ConsumerStanding.CREATING)
        since = (self.coming_since or now) if comes else None
        return KnownConsumer(arn, standing, now, since, self.was_there or is_there)

    def lost(self, arn: str) -> KnownConsumer:
        """A subscription found no consumer of this ARN."""
        return replace(self, standing=None, looked_at=None) if arn == self.arn else self


UNSEEN = KnownConsumer()


def search(known: KnownConsumer, now: datetime) -> ConsumerLookup:
    if known.standing is None or known.looked_at is None:
        return ConsumerLookup.LOOK
    if known.standing is ConsumerStanding.ACTIVE:
        return ConsumerLookup.USE
    comes_soon = known.coming_since is not None and now - known.coming_since < CREATED_WITHIN
    if now - known.looked_at >= (LOOKED_AT_EVERY if comes_soon else LOOKED_FOR_EVERY):
        return ConsumerLookup.LOOK
    return ConsumerLookup.WAIT if comes_soon else ConsumerLookup.POLL


def is_to_register(found: ConsumerStanding, before: KnownConsumer, *, may_register: bool) -> bool:
    """Whether to register the consumer after a look that found this."""
    return may_register and found is ConsumerStanding.MISSING and not before.was_there
