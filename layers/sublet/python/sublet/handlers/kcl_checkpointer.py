"""kclpy's checkpointer over ours: by sequence numbers, with KCL's rules for them and under KCL's names for what went wrong."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

from sublet.errors import MalformedCheckpoint
from sublet.handler import CheckpointReply
from sublet.protocol.checkpoint import Checkpoint

SHUTDOWN = "ShutdownException"
"""The lease is another's, or about to be: this processor checkpoints no more."""

THROTTLING = "ThrottlingException"
"""The lease table is out of reach: it may be tried again."""

ILLEGAL_ARGUMENT = "IllegalArgumentException"
"""Not a sequence number, one before the last checkpoint, or one beyond what the processor has been given."""

_ERRORS = {CheckpointReply.TOO_LATE: SHUTDOWN, CheckpointReply.OUT_OF_REACH: THROTTLING}


class CheckpointError(Exception):
    """kclpy's, where that is not installed. `value` is the name of the KCL's exception."""

    def __init__(self, value: str) -> None:
        self.value = value
        super().__init__(value)

    def __str__(self) -> str:
        return repr(self.value)


def checkpoint_error() -> type[Exception]:
    """The class that a processor catches: kclpy's own where it is installed."""
    try:
        known: type[Exception] = importlib.import_module("amazon_kclpy.kcl").CheckpointError
    except ImportError:
        return CheckpointError
    return known


def nothing_given(_: Checkpoint) -> CheckpointReply:
    """Before the first batch: what the lease's row says stands there already."""
    return CheckpointReply.WRITTEN


@dataclass(slots=True)
class KclCheckpointer:
    """Of one processor. `last` is its last checkpoint, `first` and `given` are the first and the last record that it was given.

    write   the checkpoint of the lease, by position; of the latest batch
    """

    error: type[Exception]
    last: Checkpoint
    given: Checkpoint
    write: Callable[[Checkpoint], CheckpointReply] = nothing_given
    is_gone: bool = False
    first: Checkpoint | None = None

    @property
    def is_at_end(self) -> bool:
        """Nothing that it was given is left to be checkpointed."""
        return self.last >= self.given

    def checkpoint(
        self, sequence_number: str | int | None = None, sub_sequence_number: str | int | None = None
    ) -> None:
        """Everything up to there is done: up to the last record given, without a number. It is written when this returns.

        A number without one within it means the first user record of an aggregate, as in the KCL. Raises CheckpointError.
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
        """Both may be text, as in MultiLangDaemon's messages. Nothing before the first record is of this shard: Kinesis would
        open nothing there, for nobody.
        """
        try:
            to = Checkpoint.parse(str(sequence_number), int(str(sub_sequence_number)))
        except (MalformedCheckpoint, ValueError) as malformed:
            raise self.error(ILLEGAL_ARGUMENT) from malformed
        is_given = self.first is not None and Checkpoint(self.first.sequence_number) <= to <= self.given
        if not to.is_sequence_number or not (to == self.last or (is_given and self.last <= to)):
            raise self.error(ILLEGAL_ARGUMENT)
        return to
