"""When a process should make way for a new one: what has befallen it is its own, and would not befall the next.

A Python thread cannot be ended from outside, and what a handler leaks stays leaked. Records are no ground to end a process for:
they come to the next one too.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sublet.decisions.window import LeaseReport, Outcome

_NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})
_NO_THREAD = "can't start new thread"
"""Python's own words, in a RuntimeError of no type of its own."""


class Ending(StrEnum):
    """Why, as a sentence goes on."""

    CALL_HANGS = "a call of the handler hangs, and a thread cannot be ended"
    ALL_SLOTS_HANG = "calls of the handler hang in all of its slots"
    ALL_LEASES_HANG = "calls of the handler hang for every lease that it could work on"
    NO_DESCRIPTORS = "it can have no more file descriptors"
    NO_THREADS = "it can have no more threads"
    NOTHING_WORKS = "the handler fails wherever it is called, where it has worked before"


@dataclass(frozen=True, slots=True)
class Health:
    """slots          handler calls that the process may make at once; each that hangs is replaced once
    hung           calls that hang now
    lacking        what the system would not give it
    is_exclusive   no call may overlap with another, not with one that hangs either: none is replaced
    is_stuck       a look has found nothing for it but what hangs here: see `is_stuck`
    """

    slots: int
    hung: int = 0
    lacking: Ending | None = None
    is_exclusive: bool = False
    is_stuck: bool = False

    @property
    def ends_now(self) -> Ending | None:
        """Nothing more can be done here: whatever is held is to be given back at once."""
        if self.lacking is not None:
            return self.lacking
        if self.hung >= self._most:
            return Ending.ALL_SLOTS_HANG
        return Ending.ALL_LEASES_HANG if self.is_stuck else None

    @property
    def _most(self) -> int:
        return self.slots if self.is_exclusive else 2 * self.slots

    @property
    def ends_soon(self) -> Ending | None:
        """The other leases can go on, and the next process need not have this one's thread and memory."""
        return self.ends_now or (Ending.CALL_HANGS if self.hung else None)


def is_stuck(chosen: Collection[str], hung: Collection[str], *, is_at_work: bool) -> bool:
    """Whether a process that is at work on no other lease has chosen none but such as a call hangs for here (by lease key): it
    may not begin with them, and with fewer leases than slots these never hang in all.

    One that has healthy leases goes on with them. One that has chosen nothing has nothing to do, which is no reason either:
    others have it all, or what kept hanging is left alone for a while.
    """
    return bool(chosen) and not is_at_work and set(chosen) <= set(hung)


def lacking(failure: BaseException) -> Ending | None:
    """What the system had no more of, by an exception or by any that it comes from: clients of AWS raise their own instead."""
    for cause in _causes(failure):
        if isinstance(cause, OSError) and cause.errno in _NO_DESCRIPTOR:
            return Ending.NO_DESCRIPTORS
        if isinstance(cause, RuntimeError) and _NO_THREAD in str(cause):
            return Ending.NO_THREADS
    return None


def _causes(failure: BaseException) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    cause: BaseException | None = failure
    while cause is not None and cause not in seen:
        yield cause
        seen.append(cause)
        cause = cause.__cause__ or cause.__context__


def nothing_works(
    reports: Sequence[LeaseReport], began_at: datetime, finished_at: Mapping[str, datetime]
) -> bool:
    """The handler failed wherever it was called in the window that began then, though this process has finished records of one
    of these leases before. `finished_at`: by lease key, when it last finished any.

    Without those before, it is a record, the code, or what that depends on: a new process would fail in the same way. So a bad
    deployment ends no process, and a poison record or an outage ends each one at most once.
    """
    failed = [report.lease_key for report in reports if report.outcome is Outcome.HANDLER_FAILED]
    worked_before = any(lease_key in finished_at for lease_key in failed)
    return worked_before and all(at < began_at for at in finished_at.values())
