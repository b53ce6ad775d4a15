"""A queue's messages during a redrive: received, hidden while they are handled, then deleted or left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from botocore.exceptions import ClientError

from sublet.ports import GIVEN_FOR, KeptBatch
from sublet.protocol.failure_document_read import NotADocument, batch_of_message

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import MessageTypeDef

RECEIVED_AT_ONCE = 10
"""SQS' limit for one ReceiveMessage."""

NO_LONGER_OURS = (
    "MessageNotInflight",
    "AWS.SimpleQueueService.MessageNotInflight",
    "ReceiptHandleIsInvalid",
    "InvalidParameterValue",  # what a FIFO queue returns for an expired receipt handle
)
"""SQS' errors for a message that is no longer hidden, or that another receiver has taken."""


class Queue(NamedTuple):
    """long_poll   seconds to wait for messages when there seem to be none; a long poll queries all of the queue's
    servers"""

    client: SQSClient
    url: str
    long_poll: int

    def receive(self) -> Sequence[MessageTypeDef]:
        """The messages stay hidden for GIVEN_FOR."""
        reply = self.client.receive_message(
            QueueUrl=self.url,
            MaxNumberOfMessages=RECEIVED_AT_ONCE,
            VisibilityTimeout=int(GIVEN_FOR.total_seconds()),
            WaitTimeSeconds=self.long_poll,
            AttributeNames=["MessageGroupId"],
        )
        return reply.get("Messages", ())

    def hide(self, handle: str) -> bool:
        """Hides the message for another GIVEN_FOR. False if its time had run out, so that others may receive it."""
        return self._change(handle, int(GIVEN_FOR.total_seconds()))

    def leave(self, handle: str) -> None:
        """Makes the message available at once; it already is if it is no longer ours."""
        self._change(handle, 0)

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
            self.client.change_message_visibility(
                QueueUrl=self.url, ReceiptHandle=handle, VisibilityTimeout=seconds
            )
        except ClientError as refused:
            if not _is_no_longer_ours(refused):
                raise
            return False
        return True


def batch_in(body: str, message_id: str, handle: str) -> KeptBatch:
    try:
        return KeptBatch(handle, batch_of_message(body))
    except NotADocument as problem:
        return KeptBatch(handle, None, f"message {message_id}: {problem}")


def _is_no_longer_ours(refused: ClientError) -> bool:
    return refused.response.get("Error", {}).get("Code") in NO_LONGER_OURS
