"""Describes a redrive for the command and the page: its rate, what a handler must check, and its result."""

from __future__ import annotations

from datetime import timedelta
from math import inf

from sublet.decisions.plurals import counted
from sublet.operate.redrive import RedriveProgress
from sublet.ports import GIVEN_FOR
from sublet.settings import HandlerContract

TOLD_BY = {
    HandlerContract.BATCH: "batch.is_redrive",
    HandlerContract.LAMBDA_EVENT: 'getattr(context, "is_redrive", False)',
    HandlerContract.RECORD_PROCESSOR: "process_records_input.is_redrive, from version 2 of kclpy on",
}
"""How a handler of each contract can tell that a batch is redriven."""

SLOWEST = 0.001
"""The lowest rate, in records a second."""


def rate_of(text: str) -> float:
    """Parses records a second. Raises ValueError, which says what is allowed."""
    try:
        records = float(text) if text.isascii() else 0
    except ValueError:
        records = 0
    if not SLOWEST <= records < inf:
        raise ValueError(f"{text!r} is not a number of records a second, from {SLOWEST}")
    return records


def note(contract: HandlerContract) -> str:
    """Warns the user of what a redrive cannot see: a handler that skips the records returns just as one that handles
    them.
    """
    return (
        "the handler has since handled records that come after these. A handler that skips records before its own "
        f"position would skip these too, and they would still be removed: it must check {TOLD_BY[contract]}"
    )


def said(done: RedriveProgress, *, dry_run: bool) -> str:
    """Describes the result in one line."""
    what = "would be handed over" if dry_run else "handled and removed"
    text = f"{counted(done.records_done, 'record')} in {counted(done.done, 'batch', 'batches')} {what}"
    if done.hidden:
        minutes = GIVEN_FOR // timedelta(minutes=1)
        text += f"; about {done.hidden:,} more are hidden, since another consumer received them: "
        text += f"for {minutes} minutes at most if it was a redrive"
    if done.failed:
        text += f"; {counted(done.failed, 'batch failed again and stays', 'batches failed again and stay')}"
    if done.changed:
        text += (
            f"; {done.changed:,} are handled, but stay, since they were set aside again or received by others meanwhile"
        )
    if done.foreign:
        text += f"; {done.foreign:,} belong to other applications or cannot be read, and stay"
    if done.held_back:
        text += f"; {_behind(done)}"
    if done.missed:
        text += (
            f"; about {done.missed:,} that were counted never came: another consumer or a dead-letter queue has them"
        )
    if done.is_shared:
        text += "; another redrive is removing the same batches, so this one has stopped and leaves it the rest"
    return text


def _behind(done: RedriveProgress) -> str:
    many = f"about {done.behind:,} batches" if done.behind else "what may be"
    return (
        f"{many} behind the ten that stay of {', '.join(done.held_back)} could not be received: a FIFO queue returns "
        "no more of its message group. Fix the handler for those first, or give the queue a dead-letter queue, which "
        "takes what is received too often"
    )
