"""Decides when to restart the process: after faults that a fresh one would not have.

A Python thread cannot be ended from outside, and what a handler leaks stays leaked. Records are no reason to restart,
since the next process gets the same ones.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sublet.decisions.session.window import LeaseReport, SessionOutcome

_NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})
_NO_THREAD = "can't start new thread"
"""Python's own text; it raises a plain RuntimeError."""


class ProcessEndReason(StrEnum):
    """Why the process should be replaced."""

    CALL_HANGS = "a call of the handler hangs, and a thread cannot be ended"
    ALL_SLOTS_HANG = "calls of the handler hang in all of its slots"
    ALL_LEASES_HANG = "calls of the handler hang for every lease that the process could work on"
    NO_DESCRIPTORS = "the process has run out of file descriptors"
    NO_THREADS = "the process cannot start any more threads"
    NOTHING_WORKS = "the handler fails for every shard, though it has worked before"


@dataclass(frozen=True, slots=True)
class Health:
    """The faults of this process so far.

    slots         handler calls that the process may make at once; a slot whose call hangs is replaced once
    hung          calls that hang now
    lacking       the resource that the system refused
    is_exclusive  calls must not overlap, not even with one that hangs, so no slot is replaced
    is_stuck      all the leases that the last scan chose have a hung call here: see `is_stuck`
    """

    slots: int
    hung: int = 0
    lacking: ProcessEndReason | None = None
    is_exclusive: bool = False
    is_stuck: bool = False

    @property
    def ends_now(self) -> ProcessEndReason | None:
        """Why the process can do nothing more and has to release all leases at once; None if it can."""
        if self.lacking is not None:
            return self.lacking
        if self.hung >= self._most:
            return ProcessEndReason.ALL_SLOTS_HANG
        return ProcessEndReason.ALL_LEASES_HANG if self.is_stuck else None

    @property
    def _most(self) -> int:
        return self.slots if self.is_exclusive else 2 * self.slots

    @property
    def ends_soon(self) -> ProcessEndReason | None:
        """Why to end the process once its windows are over; None if it goes on. Its other leases go on until then. The
        next process will not have the hung thread and its memory.
        """
        return self.ends_now or (ProcessEndReason.CALL_HANGS if self.hung else None)


def is_stuck(chosen: Collection[str], hung: Collection[str], *, is_at_work: bool) -> bool:
    """Whether the process is idle although it chose leases (by lease key), because each of them has a hung call here.
    It must not begin with those. If there are fewer of them than slots, not all slots ever hang, so that alone would
    not end the process.

    A process with healthy leases goes on. One that chose nothing has nothing to do, which is no reason to end it: other
    workers have all the leases, or the hung ones are in their pause.
    """
    return bool(chosen) and not is_at_work and set(chosen) <= set(hung)


def lacking(failure: BaseException) -> ProcessEndReason | None:
    """Which resource has run out, from the exception or from one that caused it, since AWS clients raise exceptions of
    their own.
    """
    for cause in _causes(failure):
        if isinstance(cause, OSError) and cause.errno in _NO_DESCRIPTOR:
            return ProcessEndReason.NO_DESCRIPTORS
        if isinstance(cause, RuntimeError) and _NO_THREAD in str(cause):
            return ProcessEndReason.NO_THREADS
    return None


def _causes(failure: BaseException) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    cause: BaseException | None = failure
    while cause is not None and cause not in seen:
        yield cause
        seen.append(cause)
        cause = cause.__cause__ or cause.__context__


def nothing_works(reports: Sequence[LeaseReport], began_at: datetime, finished_at: Mapping[str, datetime]) -> bool:
    """Whether the handler failed for every lease in the window that began then, although this process has finished
    records of one of those leases before. `finished_at`: by lease key, when it last finished any.

    Without earlier success the cause is a record, the code or what that depends on, and a new process would fail in the
    same way. So a bad deployment ends no process, and a poison record or an outage ends each process at most once.
    """
    failed = [report.lease_key for report in reports if report.outcome is SessionOutcome.HANDLER_FAILED]
    worked_before = any(lease_key in finished_at for lease_key in failed)
    return worked_before and all(at < began_at for at in finished_at.values())
