"""SubscribeToShard."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from sublet.decisions.session.push import PushEnd
    from sublet.decisions.session.read_position import ReadPosition
    from sublet.ports.stream import Unanswered
    from sublet.protocol.records import Page


class Pushed(NamedTuple):
    """One event of a subscription. `continuation`: the sequence number after which the next subscription goes on; None
    at the shard's end, whose children `page` then names, as far as the service did.
    """

    page: Page
    continuation: str | None


class ShardSubscription(Protocol):
    """One SubscribeToShard, for as long as it lasts."""

    def wait(self, longest: timedelta) -> bool:
        """Wait until something has come, its end included, or for `longest`. Returns whether something has."""

    def next(self) -> Pushed | PushEnd | Unanswered:
        """The next event, of which some bytes have come, or why there is none. Raises what Stream raises."""

    @property
    def has_more(self) -> bool:
        """Whether more bytes have come than those of the events that were taken. Does not wait."""

    def interrupt(self) -> None:
        """End it and every wait at once. Takes no lock, raises nothing."""

    def close(self) -> None:
        """Free what it holds. No thread uses it any more."""


class Pushes(Protocol):
    """SubscribeToShard, as one registered consumer. Raises what Stream raises, and CheckpointNotInStream."""

    def subscribe(self, shard_id: str, position: ReadPosition) -> ShardSubscription | PushEnd | Unanswered:
        """Begin a subscription. At most one call a second for a shard."""
