"""The contract of Lambda's event source mapping as the Handler port: `handler(event, context)`, unchanged."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import ClassVar

from sublet.errors import BatchItemsFailed
from sublet.handler import Batch
from sublet.handlers.contract import finished
from sublet.handlers.item_failures import check_sendable, failed
from sublet.handlers.kinesis_event import kinesis_event, stream_arn_of
from sublet.handlers.lambda_context import FunctionIdentity, context_of
from sublet.protocol.checkpoint import Checkpoint, PendingCheckpoint
from sublet.protocol.stream_key import own_id
from sublet.settings import Settings

ONE_AT_A_TIME = threading.Lock()
"""All consumers in the process share this lock. A Lambda process has one invocation at a time, and handlers rely on it:
Powertools' BatchProcessor is a module's global that forgets one batch's failures when another begins.
"""


def turn_of(settings: Settings) -> AbstractContextManager[object]:
    """The context manager around each call: the shared lock, unless the settings allow several calls at once."""
    return ONE_AT_A_TIME if settings.is_called_one_at_a_time else nullcontext()


@dataclass(frozen=True, slots=True)
class LambdaEventHandler:
    """Calls `function` with the event of each batch. A return with batchItemFailures means progress up to the first of
    them, and a failure.
    """

    function: Callable[..., object]
    identity: FunctionIdentity
    invoke_identity_arn: str
    turn: AbstractContextManager[object]
    new_id: Callable[[], object] = uuid.uuid4
    reports_failures: bool = True
    """If False, a return value that is JSON is ignored, as behind a mapping without ReportBatchItemFailures."""
    without: ClassVar[frozenset[str]] = frozenset({"lease_acquired", "lease_releasing", "lease_lost"})

    def handle(self, batch: Batch) -> None:
        """Raises BatchItemsFailed for reported failures, and whatever the function raises."""
        stream_arn = stream_arn_of(batch.stream, batch.stream_arn)
        event = kinesis_event(own_id(batch.shard_id), batch.records, stream_arn, self.invoke_identity_arn)
        context = context_of(
            self.identity, str(self.new_id()), batch.remaining_time_in_millis, is_redrive=batch.is_redrive
        )
        with self.turn:
            returned = finished(self.function(event, context))
        check_sendable(returned)
        if not self.reports_failures or (found := failed(returned, batch.records)) is None:
            return
        if found.first > 0:
            batch.checkpoint(batch.records[found.first - 1])
        raise BatchItemsFailed(found.why)

    def lease_acquired(self, shard_id: str, checkpoint: Checkpoint, pending: PendingCheckpoint | None = None) -> None:
        """Does nothing, like the functions below: Lambda has no such calls."""

    def lease_releasing(self, shard_id: str) -> None: ...

    def lease_lost(self, shard_id: str) -> None: ...

    def shard_ended(self, shard_id: str) -> None: ...
