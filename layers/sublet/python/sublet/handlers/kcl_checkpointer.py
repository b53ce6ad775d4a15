"""kclpy's checkpointer on top of ours: by sequence numbers, with KCL's rules and KCL's exception names."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

from sublet.errors import MalformedCheckpoint
from sublet.handler import CheckpointReply
from sublet.protocol.checkpoint import Checkpoint

SHUTDOWN = "ShutdownException"
"""The lease belongs to another worker, or soon will: this processor can no longer checkpoint."""

THROTTLING = "ThrottlingException"
"""The lease table is out of reach; a retry may succeed."""

ILLEGAL_ARGUMENT = "IllegalArgumentException"
"""The processor's argument is not a sequence number, is before the last checkpoint, or is beyond the records that it
was given.
"""

_ERRORS = {CheckpointReply.TOO_LATE: SHUTDOWN, CheckpointReply.OUT_OF_REACH: THROTTLING}


class CheckpointError(Exception):
    """Stands in for kclpy's class if that is not installed. `value` is the name of KCL's exception."""

    def __init__(self, value: str) -> None:
        self.value = value
        super().__init__(value)

    def __str__(self) -> str:
        return repr(self.value)


def checkpoint_error() -> type[Exception]:
    """The exception class that a processor catches: kclpy's own if it is installed."""
    try:
        known: type[Exception] = importlib.import_module("amazon_kclpy.kcl").CheckpointError
    except ImportError:
        return CheckpointError
    return known


def nothing_given(_: Checkpoint) -> CheckpointReply:
    """Checkpoints nothing before the first batch: the lease's row already has that checkpoint."""
    return CheckpointReply.WRITTEN


@dataclass(slots=True)
class KclCheckpointer:
    """The checkpointer of one processor.

    error    the exception class
    last     its last checkpoint
    given    the last record that the processor was given
    write    checkpoints the lease at a position of the latest batch
    is_gone  the lease is lost
    first    the first record that the processor was given
    """

    error: type[Exception]
    last: Checkpoint
    given: Checkpoint
    write: Callable[[Checkpoint], CheckpointReply] = nothing_given
    is_gone: bool = False
    first: Checkpoint | None = None

    @property
    def is_at_end(self) -> bool:
        """Whether all records that it was given are checkpointed."""
        return self.last >= self.given

    def checkpoint(
        self, sequence_number: str | int | None = None, sub_sequence_number: str | int | None = None
    ) -> None:
        """Checkpoint everything up to that record, or up to the last record given. The write is done when this returns.

        Without a sub-sequence number it means the first user record of an aggregate, as in KCL. Raises CheckpointError.
        """
        if self.is_gone:
            raise self.error(SHUTDOWN)
        to = (
            self.given
            if sequence_number is None
            else self._position(sequence_number, 0 if sub_sequence_number is None else sub_sequence_number)
        )
        if to == self.last:
            return
        reply = self.write(to)
        if reply is not CheckpointReply.WRITTEN:
            raise self.error(_ERRORS[reply])
        self.last = to

    def _position(self, sequence_number: str | int, sub_sequence_number: str | int) -> Checkpoint:
        """Both may be text, as in MultiLangDaemon's messages. A position before the first record cannot be in this
        shard: Kinesis would refuse to open it there.
        """
        try:
            to = Checkpoint.parse(str(sequence_number), int(str(sub_sequence_number)))
        except (MalformedCheckpoint, ValueError) as malformed:
            raise self.error(ILLEGAL_ARGUMENT) from malformed
        is_given = self.first is not None and Checkpoint(self.first.sequence_number) <= to <= self.given
        if not to.is_sequence_number or not (to == self.last or (is_given and self.last <= to)):
            raise self.error(ILLEGAL_ARGUMENT)
        return to
