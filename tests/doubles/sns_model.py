"""A topic in memory, with one queue subscribed to it (raw message delivery): an SNS client, as far as a destination
uses one.

A plain topic delivers later, in any order, and at times twice. A FIFO topic accepts nothing twice within five minutes,
and delivers in order: https://docs.aws.amazon.com/sns/latest/dg/fifo-topic-message-dedup.html
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from botocore.exceptions import ClientError

from tests.doubles.sqs_model import REMEMBERED_FOR, SqsModel

MESSAGE_BYTES_MAX = 256 * 1024
DELIVERED_WITHIN = timedelta(seconds=30)


@dataclass(slots=True)
class SnsModel:
    """`delivers_twice`: the probability that a plain topic does. `message_bytes_max`: its MaximumMessageSize."""

    queue: SqsModel
    delivers_twice: float = 0
    message_bytes_max: int = MESSAGE_BYTES_MAX
    under_way: list[tuple[datetime, str]] = field(default_factory=list)
    """Pending messages, and when each is delivered."""
    _sent: dict[str, datetime] = field(default_factory=dict)
    """By deduplication id."""

    def publish(
        self,
        *,
        Message: str,  # noqa: N803 - the client's
        MessageGroupId: str = "",  # noqa: N803
        MessageDeduplicationId: str = "",  # noqa: N803
        **_: object,
    ) -> dict[str, str]:
        now = self.queue.now()
        if len(Message.encode()) > self.message_bytes_max:
            said = "Invalid parameter: Message too long"
            raise ClientError({"Error": {"Code": "InvalidParameter", "Message": said}}, "Publish")
        if not self.queue.is_fifo:
            times = 2 if self.queue.chance.random() < self.delivers_twice else 1
            for _time in range(times):
                self.under_way.append((now + DELIVERED_WITHIN * self.queue.chance.random(), Message))
            return {}
        sent_at = self._sent.get(MessageDeduplicationId)
        if sent_at is None or now - sent_at >= REMEMBERED_FOR:
            self._sent[MessageDeduplicationId] = now
            self.queue.send_message(
                MessageBody=Message,
                MessageGroupId=MessageGroupId,
                MessageDeduplicationId=MessageDeduplicationId,
            )
        return {}

    def deliver(self) -> None:
        """Deliver what is due."""
        now = self.queue.now()
        due = [message for at, message in self.under_way if at <= now]
        self.under_way = [(at, message) for at, message in self.under_way if at > now]
        for message in due:
            self.queue.send_message(MessageBody=message)
