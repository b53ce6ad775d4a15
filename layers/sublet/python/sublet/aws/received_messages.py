"""A queue's messages as a redrive has them: received, hidden while they are handled, and left."""

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
"""SQS: the most messages of one ReceiveMessage."""

NO_LONGER_OURS = (
    "MessageNotInflight",
    "AWS.SimpleQueueService.MessageNotInflight",
    "ReceiptHandleIsInvalid",
    "InvalidParameterValue",  # which a FIFO queue says of a receipt handle that has expired
)
"""What SQS says of a message that is hidden no more, or that somebody else has been given."""


class Queue(NamedTuple):
    """long_poll   seconds to wait for messages when there seem to be none, which asks all of the queue's servers"""

    client: SQSClient
    url: str
    long_poll: int

    def receive(self) -> Sequence[MessageTypeDef]:
        """Hidden from now on."""
        reply = self.client.receive_message(
            QueueUrl=self.url,
            MaxNumberOfMessages=RECEIVED_AT_ONCE,
            VisibilityTimeout=int(GIVEN_FOR.total_seconds()),
            WaitTimeSeconds=self.long_poll,
            AttributeNames=["MessageGroupId"],
        )
        return reply.get("Messages", ())

    def hide(self, handle: str) -> bool:
        """For all the time that there is, from now on. False: it has waited for too long, and others can be given it."""
        return self._change(handle, int(GIVEN_FOR.total_seconds()))

    def leave(self, handle: str) -> None:
        """It can be had again at once. One that is not ours any more can be already."""
        self._change(handle, 0)

    def delete(self, handle: str) -> bool:
        """False: it is not ours any more, and stays."""
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
