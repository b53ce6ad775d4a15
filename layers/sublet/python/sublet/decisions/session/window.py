"""A lease worker's decisions within one window, and what the state machine does after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from sublet.decisions.manager.choose_leases import ClaimReason
from sublet.decisions.manager.packing import LeaseClaim, WorkerItem
from sublet.handler import no_deadline
from sublet.protocol.lease import LeaseFence
from sublet.protocol.records import Page, UserRecord
from sublet.settings import Mode, Settings

MILLISECOND = timedelta(milliseconds=1)

RUNS_MAX = 50
"""Runs of the worker for one item in one execution, crashed ones included (Settings allows windows_per_execution up to
this).
"""

BATCH_RECORDS_MAX = 50_000
"""User records in a handler call, even if batch_size is larger: as objects they take some 10 MB for each lease."""

BATCH_PIECES_MAX = 2**20
"""Bytes of one large aggregate in a handler call: an aggregate of at most 1 MiB, as producers' libraries write them,
stays whole.
"""

CRASHES_MAX = 3
"""Crashes in a row after which the item still runs again; the next one leaves it to the next tick."""


class SessionOutcome(StrEnum):
    """How a lease's session in a window ended."""

    CAUGHT_UP = "caught_up"
    WINDOW_ENDED = "window_ended"
    LEASE_LOST = "lease_lost"
    MOVED = "moved"
    """An operator has changed its checkpoint: the lease is kept, and read from there at once."""
    SHARD_ENDED = "shard_ended"
    SHARD_END_BLOCKED = "shard_end_blocked"
    """A merge's other parent has no lease yet: released, and the next tick creates it."""
    WAITS_FOR_PARENTS = "waits_for_parents"
    """A parent has not ended, which the lease manager could not see yet: released, and the next tick checks again."""
    HANDLER_FAILED = "handler_failed"
    HANDLER_HUNG = "handler_hung"
    """A call took too long: released, while the call goes on, and its late result is ignored."""
    SERVICE_FAILED = "service_failed"
    """Kinesis or DynamoDB refused, and a retry would not have helped: see the report's `problem`."""
    COULD_NOT_ACQUIRE = "could_not_acquire"
    TRIED_APART = "tried_apart"
    """The lease is released, because its owners keep crashing, and the next tick sends a worker for it alone."""
    LEFT_ALONE = "left_alone"
    """The lease is released, because its owners crashed with it alone too, and paused for longer with each crash."""


WORST_FIRST = (
    SessionOutcome.HANDLER_HUNG,
    SessionOutcome.HANDLER_FAILED,
    SessionOutcome.SERVICE_FAILED,
    SessionOutcome.LEFT_ALONE,
    SessionOutcome.TRIED_APART,
)
"""Outcomes that need attention."""


class AfterWindow(StrEnum):
    """What the state machine does after a window."""

    AGAIN = "again"
    PROMPT = "prompt"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class LeaseReport:
    """What a window did with one lease: the outcome, and counts since it began. `kept`: the fence of a lease still
    held.
    """

    lease_key: str
    outcome: SessionOutcome
    kept: LeaseFence | None = None
    checkpoint: str | None = None
    stream_records: int = 0
    user_records: int = 0
    bytes: int = 0
    millis_behind_latest: int | None = None
    handler_failures: int = 0
    dropped_out_of_range: int = 0
    unstarted_children: int = 0
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class WindowReport:
    """The return value of a lease worker. Expected failures are outcomes, not exceptions."""

    next: AfterWindow
    item: WorkerItem
    leases: tuple[LeaseReport, ...]

    @property
    def outcome(self) -> str:
        """The window in one word, for people who look at executions: the worst outcome of a lease, otherwise what comes
        next.
        """
        outcomes = {lease.outcome for lease in self.leases}
        if trouble := [worst for worst in WORST_FIRST if worst in outcomes]:
            return trouble[0].value
        if outcomes == {SessionOutcome.COULD_NOT_ACQUIRE}:
            return SessionOutcome.COULD_NOT_ACQUIRE.value
        return "done" if self.next is AfterWindow.DONE else "prompted"


@dataclass(frozen=True, slots=True)
class AtTip:
    """The time since which every page of a shard has been at the tip; None while the shard is behind."""

    since: datetime | None = None

    def after(self, page: Page, now: datetime) -> AtTip:
        if page.millis_behind_latest > 0:
            return AtTip()
        return self if self.since is not None else AtTip(now)


def has_caught_up(page: Page, tip: AtTip, now: datetime, settings: Settings) -> bool:
    """In catch_up mode, a session ends at an empty page at the tip, or after `linger` at the tip of a shard that always
    has a few records.

    A page with records and no lag is not yet the tip: records of the same millisecond may follow.
    """
    if settings.mode is not Mode.CATCH_UP or tip.since is None:
        return False
    return not page.records or now - tip.since >= settings.linger


def batches(parts: Iterable[tuple[Sequence[UserRecord], int]], batch_size: int) -> Iterator[Sequence[UserRecord]]:
    """Batches from parts of user records. Each part comes with its bytes if it is a piece of a large aggregate,
    otherwise 0. The next part is taken once the batches of the earlier ones are handled, so that no more records exist
    than a batch needs.
    """
    most = min(batch_size, BATCH_RECORDS_MAX)
    waiting: Sequence[UserRecord] = ()
    piece_bytes = 0
    for part, size in parts:
        if waiting and piece_bytes + size > BATCH_PIECES_MAX:
            yield waiting
            waiting, piece_bytes = (), 0
        waiting = [*waiting, *part] if waiting else part  # most parts are a batch: no copy of those
        piece_bytes += size
        start = 0
        for end in batch_ends(waiting, most):
            if end < len(waiting):  # the last one may still grow
                yield waiting[start:end]
                start, piece_bytes = end, size
        if start:
            waiting = waiting[start:]
    if waiting:
        yield waiting


def batch_ends(records: Sequence[UserRecord], batch_size: int) -> Iterator[int]:
    """Where each batch ends, in order. The user records of one stream record stay together, unless they exceed a
    batch.
    """
    start = 0
    while start < len(records):
        end = min(start + batch_size, len(records))
        if end < len(records):
            whole = end
            while whole > start and records[whole].stream_record is records[whole - 1].stream_record:
                whole -= 1
            end = whole if whole > start else end
        yield end
        start = end


def handler_backoff(failures: int, settings: Settings) -> timedelta:
    """The pause after the n-th failure in a row: doubles from handler_backoff up to handler_backoff_max."""
    return min(settings.handler_backoff * (1 << min(failures - 1, 30)), settings.handler_backoff_max)


def overdue_at(now: datetime, cut_off: datetime | None, settings: Settings) -> datetime | None:
    """When a handler call that begins now has to return; None: no limit.

    `cut_off`: when the runtime ends the process, as Lambda does. The last third of window_margin before that is for the
    last checkpoints and the releases; a lease_releasing hook that runs then gets half of it.
    """
    limits = [] if settings.handler_timeout is None else [now + settings.handler_timeout]
    if cut_off is not None:
        limits.append(max(cut_off - settings.window_margin / 3, now + settings.window_margin / 6))
    return min(limits, default=None)


def millis_left(began_at: datetime, now: datetime, deadline: datetime | None, settings: Settings) -> int:
    """Milliseconds that a call which began then may count on: until its window ends, or until `handler_timeout` gives
    it up if that is sooner. Never negative.
    """
    limit = None if settings.handler_timeout is None else began_at + settings.handler_timeout
    ends = min((each for each in (deadline, limit) if each is not None), default=None)
    return no_deadline() if ends is None else max(0, (ends - now) // MILLISECOND)


def keeps_leases(item: WorkerItem, settings: Settings) -> bool:
    """Whether leases are kept after this window: in continuous mode, while the execution may run another one."""
    return settings.mode is Mode.CONTINUOUS and item.windows_left > 1


def after_window(item: WorkerItem, reports: Sequence[LeaseReport]) -> WindowReport:
    """Another window for kept leases; otherwise a prompt if a tick now would find work; otherwise done."""
    kept = tuple(LeaseClaim(*report.kept, why=ClaimReason.CONTINUE) for report in reports if report.kept is not None)
    following = replace(item, claims=kept, windows_left=item.windows_left - 1)
    if kept:
        return WindowReport(AfterWindow.AGAIN, following, tuple(reports))
    work_left = any(_leaves_work(report) for report in reports)
    return WindowReport(AfterWindow.PROMPT if work_left else AfterWindow.DONE, following, tuple(reports))


def _leaves_work(report: LeaseReport) -> bool:
    """Whether a tick now would find work. A blocked merge prompts once: the other parent may take long itself, so a
    session that finds the shard already read to its end leaves it to the schedule.
    """
    is_blocked_anew = report.outcome is SessionOutcome.SHARD_END_BLOCKED and report.user_records > 0
    left_over = report.outcome in (SessionOutcome.WINDOW_ENDED, SessionOutcome.TRIED_APART)
    return left_over or is_blocked_anew or report.unstarted_children > 0
