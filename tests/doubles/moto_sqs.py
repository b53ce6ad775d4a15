"""What moto's queues lack: the time of a message that is no longer hidden cannot be changed. Of a plain queue SQS says
MessageNotInflight: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ChangeMessageVisibility.html
"""

from __future__ import annotations

from typing import Any

import pytest
from moto.sqs.exceptions import SQSException
from moto.sqs.models import SQSBackend

CODE = "AWS.SimpleQueueService.MessageNotInflight"
SAID = "The specified message isn't in flight."


def hide_for_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """For as long as the test runs."""
    change, change_all = SQSBackend.change_message_visibility, SQSBackend.change_message_visibility_batch

    def is_late(queue: Any, handle: str) -> bool:
        return any(each.visible for each in queue._messages if each.had_receipt_handle(handle))

    def changed(self: Any, queue_name: str, receipt_handle: str, visibility_timeout: int) -> None:
        if is_late(self.get_queue(queue_name), receipt_handle):
            raise SQSException(CODE, SAID)
        change(self, queue_name, receipt_handle, visibility_timeout)

    def all_changed(self: Any, queue_name: str, entries: list[dict[str, Any]]) -> Any:
        queue = self.get_queue(queue_name)
        late = [each for each in entries if is_late(queue, each["ReceiptHandle"])]
        done, failed = change_all(self, queue_name, [each for each in entries if each not in late])
        refused = [{"Id": each["Id"], "SenderFault": True, "Code": CODE, "Message": SAID} for each in late]
        return done, [*failed, *refused]

    monkeypatch.setattr(SQSBackend, "change_message_visibility", changed)
    monkeypatch.setattr(SQSBackend, "change_message_visibility_batch", all_changed)
