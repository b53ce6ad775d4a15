"""Reads the batches that a FIFO queue keeps. SQS returns a message group's messages in order, at most ten at a time,
and returns none of a group while one of its messages is hidden:
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/FIFO-queues-understanding-logic.html"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from sublet.aws.set_aside.sqs_messages import RECEIVED_AT_ONCE, Queue, batch_in
from sublet.aws.set_aside.sqs_store import place_of
from sublet.errors import DestinationRefused
from sublet.ports import HeldBack, KeptBatch

if TYPE_CHECKING:
    from mypy_boto3_sqs.type_defs import MessageTypeDef


class _HeldMessages(NamedTuple):
    """A group's messages that were left and came again. `is_cut_short`: the reply was full and held other groups too,
    so more of this group may follow."""

    handles: Sequence[str]
    is_cut_short: bool


def kept_groups(queue: Queue) -> Generator[KeptBatch | HeldBack, None, None]:
    """Yields each message once, in its group's order. Messages that the caller leaves come again together with those
    behind them. If up to nine are left, others still come; ten fill a reply, and the group is then reported as
    HeldBack.
    """
    giving = _GroupDelivery(queue)
    try:
        while True:
            if messages := queue.receive():
                yield from giving.new_in(messages)
            elif not giving.releases_one_group():
                break
        held_back = giving.held_back()
    finally:
        with suppress(DestinationRefused):  # the first error is the one to raise
            queue.leave_all()
    yield from held_back


@dataclass(slots=True)
class _GroupDelivery:
    """known     ids of messages already yielded; if one comes again, the caller has left it
    held      by group; hidden until the end, so that other groups get their turn
    in_hand   received, not yet yielded"""

    queue: Queue
    known: set[str] = field(default_factory=set)
    held: dict[str, _HeldMessages] = field(default_factory=dict)
    in_hand: list[MessageTypeDef] = field(default_factory=list)

    def new_in(self, messages: Sequence[MessageTypeDef]) -> Generator[KeptBatch, None, None]:
        """Yields the messages not seen before. Releases each group that has some, so that its next messages can
        follow.
        """
        by_group = _by_group(messages)
        is_cut_short = len(by_group) > 1 and len(messages) == RECEIVED_AT_ONCE
        for group, of_group in by_group.items():
            again = [each["ReceiptHandle"] for each in of_group if each["MessageId"] in self.known]
            self.held[group] = _HeldMessages(again, is_cut_short)
        fresh = [each for each in messages if each["MessageId"] not in self.known]
        self.in_hand = sorted(fresh, key=lambda each: place_of(each["Body"]), reverse=True)
        while self.in_hand:
            given = self.in_hand.pop()
            if self.queue.hide(given["ReceiptHandle"]):
                self.known.add(given["MessageId"])
                yield batch_in(given["Body"], given["MessageId"], given["ReceiptHandle"])
        for group in _by_group(fresh):
            self._release(group)

    def releases_one_group(self) -> bool:
        """Releases one group that had to share a reply with others, so that it is received alone. False if there is
        none."""
        group = next((group for group, held in self.held.items() if held.is_cut_short), None)
        if group is not None:
            self._release(group)
        return group is not None

    def held_back(self) -> list[HeldBack]:
        lefts = {group: len(held.handles) for group, held in self.held.items()}
        return [HeldBack(group, left) for group, left in lefts.items() if left >= RECEIVED_AT_ONCE]

    def _release(self, group: str) -> None:
        for handle in self.held.pop(group).handles:
            self.queue.leave(handle)


def _by_group(messages: Sequence[MessageTypeDef]) -> Mapping[str, Sequence[MessageTypeDef]]:
    groups: dict[str, list[MessageTypeDef]] = defaultdict(list)
    for message in messages:
        groups[message["Attributes"]["MessageGroupId"]].append(message)
    return groups
