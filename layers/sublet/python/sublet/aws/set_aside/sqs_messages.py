"""A queue's messages during a redrive: received, hidden while they are handled, then deleted or left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from sublet.ports import GIVEN_FOR, KeptBatch
from sublet.protocol.failure_document_read import NotADocument, batch_of_message

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import MessageTypeDef

RECEIVED_AT_ONCE = 10
"""SQS' limit for one ReceiveMessage."""

CHANGED_AT_ONCE = 10
"""SQS' limit for one ChangeMessageVisibilityBatch."""

SECONDS_HIDDEN = int(GIVEN_FOR.total_seconds())

NO_LONGER_OURS = (
    "MessageNotInflight",
    "AWS.SimpleQueueService.MessageNotInflight",
    "ReceiptHandleIsInvalid",
    "InvalidParameterValue",  # what a FIFO queue returns for an expired receipt handle
)
"""SQS' errors for a message that is no longer hidden, or that another receiver has taken."""


@dataclass(slots=True)
class Queue:
    """long_poll   seconds to wait for messages when there seem to be none; a long poll queries all of the queue's
    servers
    hidden         the handles of the messages that it has received, and that wait for their turn
    """

    client: SQSClient
    url: str
    long_poll: int
    hidden: set[str] = field(default_factory=set)

    def receive(self) -> Sequence[MessageTypeDef]:
        """The messages stay hidden for GIVEN_FOR."""
        reply = self.client.receive_message(
            QueueUrl=self.url,
            MaxNumberOfMessages=RECEIVED_AT_ONCE,
            VisibilityTimeout=SECONDS_HIDDEN,
            WaitTimeSeconds=self.long_poll,
            AttributeNames=["MessageGroupId"],
        )
        messages = reply.get("Messages", ())
        self.hidden.update(message["ReceiptHandle"] for message in messages)
        return messages

    def hold(self) -> None:
        """Hides all that is hidden for another GIVEN_FOR. Whatever that cannot be done for is no longer ours, or has
        been hidden for the 12 hours that SQS allows.
        """
        self.hidden -= self._change_all(SECONDS_HIDDEN)

    def hide(self, handle: str) -> bool:
        """Hides the message, whose turn it is, for another GIVEN_FOR. False if its time had run out, so that others may
        receive it, or if SQS hides it no longer: it is then made available, to be received again.
        """
        self.hidden.discard(handle)
        is_hidden = self._change(handle, SECONDS_HIDDEN)
        if not is_hidden:
            self.leave(handle)
        return is_hidden

    def leave(self, handle: str) -> None:
        """Makes the message available at once; it already is if it is no longer ours."""
        self.hidden.discard(handle)
        self._change(handle, 0)

    def leave_all(self) -> None:
        self._change_all(0)
        self.hidden.clear()

    def delete(self, handle: str) -> bool:
        """Deletes the message. Returns False if it is no longer ours, and stays in the queue."""
        try:
            self.client.delete_message(QueueUrl=self.url, ReceiptHandle=handle)
        except ClientError as refused:
            if not _is_no_longer_ours(refused):
                raise
            return False
        return True

    def _change(self, handle: str, seconds: int) -> bool:
        try:
            self.client.change_message_visibility(QueueUrl=self.url, ReceiptHandle=handle, VisibilityTimeout=seconds)
        except ClientError as refused:
            if not _is_no_longer_ours(refused):
                raise
            return False
        return True

    def _change_all(self, seconds: int) -> set[str]:
        """Returns the handles that SQS refused. One that it failed to change may be changed the next time."""
        refused: set[str] = set()
        hidden = sorted(self.hidden)
        for start in range(0, len(hidden), CHANGED_AT_ONCE):
            handles = hidden[start : start + CHANGED_AT_ONCE]
            reply = self.client.change_message_visibility_batch(
                QueueUrl=self.url,
                Entries=[
                    {"Id": str(number), "ReceiptHandle": handle, "VisibilityTimeout": seconds}
                    for number, handle in enumerate(handles)
                ],
            )
            refused.update(handles[int(each["Id"])] for each in reply.get("Failed", ()) if each["SenderFault"])
        return refused


def batch_in(body: str, message_id: str, handle: str) -> KeptBatch:
    try:
        return KeptBatch(handle, batch_of_message(body))
    except NotADocument as problem:
        return KeptBatch(handle, None, f"message {message_id}: {problem}")


def _is_no_longer_ours(refused: ClientError) -> bool:
    return refused.response.get("Error", {}).get("Code") in NO_LONGER_OURS
