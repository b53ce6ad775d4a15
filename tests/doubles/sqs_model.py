"""A queue in memory that behaves as SQS documents its queues: an SQS client, as far as a failure destination uses one.

A plain queue returns its messages in any order, as many as it likes, and at least once. A FIFO queue returns those of a
message group in order, none while any of the group is hidden, and accepts none twice within five minutes, even if the
first is deleted.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/FIFO-queues-understanding-logic.html

A message that was received max_receive_count times, and would be received once more, goes to the dead-letter queue
instead. https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-dead-letter-queues.html

Nothing is hidden for more than 12 hours after it was received, nor can its time be changed once that has passed.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ChangeMessageVisibility.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from random import Random
from typing import Any, NoReturn

from botocore.exceptions import ClientError

GIVEN_AT_ONCE = 10
CHANGED_AT_ONCE = 10
HIDDEN_MAX = 120_000
HIDDEN_FOR_MAX = timedelta(hours=12)
MESSAGE_BYTES_MAX = 1024 * 1024
REMEMBERED_FOR = timedelta(minutes=5)


@dataclass(slots=True, eq=False)
class _Message:
    id: str
    body: str
    group: str
    visible_at: datetime
    handle: str = ""
    """The last one issued."""
    received_at: datetime | None = None
    receives: int = 0


@dataclass(slots=True)
class SqsModel:
    """One queue. `arn`: as in the setting `on_failure`; that of a FIFO queue ends accordingly.

    `gives_twice`: the probability that a plain queue's reply has a message that should be hidden, since it only
    promises "at least once". `max_receive_count`: of its redrive policy; None if it has no dead-letter queue.
    `message_bytes_max`: its attribute MaximumMessageSize.
    """

    arn: str
    now: Callable[[], datetime]
    chance: Random = field(default_factory=lambda: Random(0))
    gives_twice: float = 0
    max_receive_count: int | None = None
    message_bytes_max: int = MESSAGE_BYTES_MAX
    dead_letters: list[_Message] = field(default_factory=list)
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

    def get_queue_attributes(self, *, AttributeNames: Sequence[str], **_: object) -> dict[str, Any]:  # noqa: N803
        hidden = sum(self._is_hidden(message) for message in self.messages)
        known = {
            "ApproximateNumberOfMessages": str(len(self.messages) - hidden),
            "ApproximateNumberOfMessagesNotVisible": str(hidden),
            "MaximumMessageSize": str(self.message_bytes_max),
        }
        return {"Attributes": {name: known[name] for name in AttributeNames}}

    def send_message(
        self,
        *,
        MessageBody: str,  # noqa: N803 - the client's
        MessageGroupId: str = "",  # noqa: N803
        MessageDeduplicationId: str = "",  # noqa: N803
        **_: object,
    ) -> dict[str, str]:
        if len(MessageBody.encode()) > self.message_bytes_max:
            said = f"Reason: Message must be shorter than {self.message_bytes_max} bytes."
            _refuse("InvalidParameterValue", "SendMessage", f"One or more parameters are invalid. {said}")
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
        if not self.is_fifo and sum(map(self._is_hidden, self.messages)) + GIVEN_AT_ONCE > HIDDEN_MAX:
            _refuse("OverLimit", "ReceiveMessage")
        self._give_up_on_some()
        found = list(self._in_order() if self.is_fifo else self._in_any_order())[:MaxNumberOfMessages]
        self.received += len(found)
        for message in found:
            message.handle = f"handle-{next(self._numbers)}"
            message.receives += 1
            message.received_at = self.now()
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
        if code := self._changed(ReceiptHandle, timedelta(seconds=VisibilityTimeout)):
            _refuse(code, "ChangeMessageVisibility")

    def change_message_visibility_batch(self, *, Entries: Sequence[Any], **_: object) -> dict[str, Any]:  # noqa: N803
        """Says of each entry whether it was changed; nothing is raised for those that were not."""
        assert 0 < len(Entries) <= CHANGED_AT_ONCE
        assert len({entry["Id"] for entry in Entries}) == len(Entries)
        codes = {
            entry["Id"]: self._changed(entry["ReceiptHandle"], timedelta(seconds=entry["VisibilityTimeout"]))
            for entry in Entries
        }
        failed = [{"Id": each, "Code": code, "SenderFault": True} for each, code in codes.items() if code]
        return {"Successful": [{"Id": each} for each, code in codes.items() if not code], "Failed": failed}

    def _changed(self, handle: str, timeout: timedelta) -> str:
        """Why the message's time cannot be changed; empty if it was."""
        message = self._given_as(handle)
        if message is None or message.received_at is None:
            return "InvalidParameterValue"
        if not self._is_hidden(message):
            return "InvalidParameterValue" if self.is_fifo else "AWS.SimpleQueueService.MessageNotInflight"
        if self.now() + timeout > message.received_at + HIDDEN_FOR_MAX:
            return "InvalidParameterValue"
        message.visible_at = self.now() + timeout
        return ""

    def delete_message(self, *, ReceiptHandle: str, **_: object) -> None:  # noqa: N803
        """With a handle that is not the latest one, or has expired in a FIFO queue, the message stays."""
        message = self._given_as(ReceiptHandle)
        if message is not None and self.is_fifo and not self._is_hidden(message):
            _refuse("InvalidParameterValue", "DeleteMessage")
        if message is not None:
            self.messages.remove(message)

    # Its contents

    def _give_up_on_some(self) -> None:
        """Every visible message may be the next to be received."""
        if self.max_receive_count is None:
            return
        locked = self._locked() if self.is_fifo else set()
        for message in list(self.messages):
            is_next = not self._is_hidden(message) and message.group not in locked
            if is_next and message.receives >= self.max_receive_count:
                self.messages.remove(message)
                self.dead_letters.append(message)

    def _is_hidden(self, message: _Message) -> bool:
        return message.visible_at > self.now()

    def _locked(self) -> set[str]:
        """The message groups of which none is given."""
        return {message.group for message in self.messages if self._is_hidden(message)}

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
        groups = sorted({message.group for message in self.messages} - self._locked())
        self.chance.shuffle(groups)
        return [message for group in groups for message in self.messages if message.group == group]


def _refuse(code: str, operation: str, said: str = "as SQS says it") -> NoReturn:
    raise ClientError({"Error": {"Code": code, "Message": said}}, operation)
