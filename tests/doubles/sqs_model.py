"""A queue in memory that behaves as SQS documents its queues: an SQS client, as far as a failure destination uses one.

A plain queue returns its messages in any order, as many as it likes, and at least once. A FIFO queue returns those of a
message group in order, none while any of the group is hidden, and accepts none twice within five minutes, even if the
first is deleted.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/FIFO-queues-understanding-logic.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from random import Random
from typing import Any, NoReturn

from botocore.exceptions import ClientError

GIVEN_AT_ONCE = 10
REMEMBERED_FOR = timedelta(minutes=5)


@dataclass(slots=True, eq=False)
class _Message:
    id: str
    body: str
    group: str
    visible_at: datetime
    handle: str = ""
    """The last one issued."""


@dataclass(slots=True)
class SqsModel:
    """One queue. `arn`: as in the setting `on_failure`; that of a FIFO queue ends accordingly.

    `gives_twice`: the probability that a plain queue's reply has a message that should be hidden, since it only
    promises "at least once".
    """

    arn: str
    now: Callable[[], datetime]
    chance: Random = field(default_factory=lambda: Random(0))
    gives_twice: float = 0
    messages: list[_Message] = field(default_factory=list)
    received: int = 0
    _sent: dict[str, tuple[datetime, str]] = field(default_factory=dict)
    """By deduplication id: the time, and the message."""
    _numbers: Any = field(default_factory=count)

    @property
    def is_fifo(self) -> bool:
        return self.arn.endswith(".fifo")

    @property
    def bodies(self) -> list[str]:
        return [message.body for message in self.messages]

    # The client

    def get_queue_url(self, **_: object) -> dict[str, str]:
        return {"QueueUrl": f"https://{self.arn}"}

    def get_queue_attributes(self, **_: object) -> dict[str, Any]:
        hidden = sum(self._is_hidden(message) for message in self.messages)
        counts = {
            "ApproximateNumberOfMessages": str(len(self.messages) - hidden),
            "ApproximateNumberOfMessagesNotVisible": str(hidden),
        }
        return {"Attributes": counts}

    def send_message(
        self,
        *,
        MessageBody: str,  # noqa: N803 - the client's
        MessageGroupId: str = "",  # noqa: N803
        MessageDeduplicationId: str = "",  # noqa: N803
        **_: object,
    ) -> dict[str, str]:
        if self.is_fifo:
            assert MessageGroupId
            assert MessageDeduplicationId
            at, known = self._sent.get(MessageDeduplicationId, (None, ""))
            if at is not None and self.now() - at < REMEMBERED_FOR:
                return {"MessageId": known}
        message = _Message(f"message-{next(self._numbers)}", MessageBody, MessageGroupId, self.now())
        self._sent[MessageDeduplicationId] = self.now(), message.id
        self.messages.append(message)
        return {"MessageId": message.id}

    def receive_message(
        self,
        *,
        MaxNumberOfMessages: int,  # noqa: N803 - the client's
        VisibilityTimeout: int,  # noqa: N803
        **_: object,
    ) -> dict[str, Any]:
        assert MaxNumberOfMessages <= GIVEN_AT_ONCE
        found = list(self._in_order() if self.is_fifo else self._in_any_order())[:MaxNumberOfMessages]
        self.received += len(found)
        for message in found:
            message.handle = f"handle-{next(self._numbers)}"
            message.visible_at = self.now() + timedelta(seconds=VisibilityTimeout)
        given = [
            {
                "MessageId": message.id,
                "ReceiptHandle": message.handle,
                "Body": message.body,
                "Attributes": {"MessageGroupId": message.group},
            }
            for message in found
        ]
        return {"Messages": given} if given else {}

    def change_message_visibility(self, *, ReceiptHandle: str, VisibilityTimeout: int, **_: object) -> None:  # noqa: N803
        message = self._given_as(ReceiptHandle)
        if message is None:
            _refuse("InvalidParameterValue", "ChangeMessageVisibility")
        if not self._is_hidden(message):
            code = "InvalidParameterValue" if self.is_fifo else "AWS.SimpleQueueService.MessageNotInflight"
            _refuse(code, "ChangeMessageVisibility")
        message.visible_at = self.now() + timedelta(seconds=VisibilityTimeout)

    def delete_message(self, *, ReceiptHandle: str, **_: object) -> None:  # noqa: N803
        """With a handle that is not the latest one, or has expired in a FIFO queue, the message stays."""
        message = self._given_as(ReceiptHandle)
        if message is not None and self.is_fifo and not self._is_hidden(message):
            _refuse("InvalidParameterValue", "DeleteMessage")
        if message is not None:
            self.messages.remove(message)

    # Its contents

    def _is_hidden(self, message: _Message) -> bool:
        return message.visible_at > self.now()

    def _given_as(self, handle: str) -> _Message | None:
        return next((message for message in self.messages if message.handle == handle), None)

    def _in_any_order(self) -> Iterable[_Message]:
        """At least one if there are any: a long poll asks all of its servers."""
        now = self.now()
        visible = [message for message in self.messages if message.visible_at <= now]
        self.chance.shuffle(visible)
        given = visible[: self.chance.randint(1, GIVEN_AT_ONCE)]
        if given and self.gives_twice > 0 and self.chance.random() < self.gives_twice:
            given[-1] = self.chance.choice(self.messages)
        return given

    def _in_order(self) -> Iterable[_Message]:
        """All of one group, then the next; any group may be first."""
        locked = {message.group for message in self.messages if self._is_hidden(message)}
        groups = sorted({message.group for message in self.messages} - locked)
        self.chance.shuffle(groups)
        return [message for group in groups for message in self.messages if message.group == group]


def _refuse(code: str, operation: str) -> NoReturn:
    raise ClientError({"Error": {"Code": code, "Message": "as SQS says it"}}, operation)
