"""A lease's metrics: published every minute of a window, whether or not the lease makes progress, and at its end."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import datetime, timedelta

from sublet.decisions.session.process_health import Outage, ShardReport
from sublet.decisions.session.read_position import shows_what_follows
from sublet.engine.calls.call_limits import HandlerCall
from sublet.engine.lease.progress import Progress
from sublet.metric_names import Metric
from sublet.ports import Ports
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.records import Page

SHOWN_EVERY = timedelta(minutes=1)
"""CloudWatch's resolution."""

STANDS_STILL_AFTER = timedelta(minutes=5)
"""After this time a shard in trouble gets a metric of its own and a log line. A shorter stop is only a pause."""

MILLISECOND = timedelta(milliseconds=1)


class LeaseMetrics:
    """Publishes what was added to a lease's totals since the last time, and notices when the lease stands still.

    Two threads call `show`: the session's, and the one that publishes a window's metrics each minute.
    """

    def __init__(self, shard_id: str, ports: Ports, progress: Progress) -> None:
        self._shard_id = shard_id
        self._clock, self._metrics, self._log = ports.clock, ports.metrics, ports.log
        self._progress = progress
        self._lock: AbstractContextManager[object] = ports.tasks.lock()
        """Guards what was published last. What the session's thread alone notes of a page needs no lock. Both write
        `_standing_since`: at worst the shard seems to stand still for a moment more or less.
        """
        self._behind: int | None = None
        """The lag after the last page. None before the first page, and after an empty page with lag, which does not
        show whether records wait.
        """
        self._is_heard = False
        """True once a page has arrived."""
        self._polled_at = self._standing_since = ports.clock.steady()
        self._walked_to = datetime.min.replace(tzinfo=self._polled_at.tzinfo)
        """A time in the shard, on our steady clock's scale. It shows whether empty pages make progress."""
        self._is_in_hand = False
        """True while a page is fetched and not handled yet."""
        self._position: Checkpoint = progress.finished
        self._logged_unfinished_at: datetime | None = None
        self._bytes = self._records = 0

    def polled(self, page: Page) -> None:
        self._polled_at, self._is_heard = self._clock.steady(), True
        self._behind = page.millis_behind_latest if shows_what_follows(page) else None
        walked_to = self._polled_at - page.millis_behind_latest * MILLISECOND
        if self._behind is None and walked_to > self._walked_to:
            self._standing_since = self._polled_at
        self._walked_to = walked_to
        self._is_in_hand = bool(page.records)

    def handled(self) -> None:
        self._is_in_hand = False

    def show(self, handled_bytes: int, user_records: int, throttled: int, called_at: datetime | None) -> None:
        """The session's totals. `throttled`: polls refused in a row. `called_at`: when the current handler call
        began.
        """
        with self._lock:
            now = self._clock.steady()
            waits = self._waits(now, throttled)
            self._show_lag(now, waits)
            self._show_added(handled_bytes, user_records)
            self._show_standing(now, waits)
            self._show_unfinished(now)
            self._put(Metric.THROTTLED_POLLS, throttled, is_trouble=throttled > 1)
            call_age = timedelta(0) if called_at is None else now - called_at
            self._put(Metric.HANDLER_CALL_AGE, call_age // MILLISECOND, is_trouble=call_age >= STANDS_STILL_AFTER)

    def _waits(self, now: datetime, throttled: int) -> bool:
        """Whether a page is not handled yet, or a poll is overdue because other leases have the handler's slots or the
        memory. Then it is unknown whether records wait. A quiet shard is polled more often than this.
        """
        is_unheard = not self._is_heard or now - self._polled_at >= STANDS_STILL_AFTER
        return throttled > 0 or self._is_in_hand or is_unheard

    def _show_lag(self, now: datetime, waits: bool) -> None:
        """Publishes nothing while the lag is unknown: hours of it would scale a fleet out for an idle shard."""
        if self._behind is None:
            return
        since = (now - self._polled_at) // MILLISECOND if waits else 0
        self._metrics.put(Metric.MILLIS_BEHIND_LATEST, self._behind + since, shard_id=self._shard_id)

    def _show_added(self, handled_bytes: int, user_records: int) -> None:
        if not self._is_heard:
            return
        self._metrics.put(Metric.BYTES, handled_bytes - self._bytes, shard_id=self._shard_id)
        self._metrics.put(Metric.RECORDS, user_records - self._records, shard_id=self._shard_id)
        self._bytes, self._records = handled_bytes, user_records

    def state(self, throttled: int, call: HandlerCall | None, outage: Outage | None = None) -> ShardReport:
        """The current state, for a health report."""
        with self._lock:
            now = self._clock.steady()
            waits = self._waits(now, throttled)
            began = None if call is None else call.began_at
            return ShardReport(
                self._shard_id,
                self._stands_still(now, waits),
                None if call is None else call.what,
                timedelta(0) if began is None else now - began,
                self._behind,
                None if outage is None else outage.problem,
                timedelta(0) if outage is None else now - outage.since,
            )

    def _stands_still(self, now: datetime, waits: bool) -> timedelta:
        """How long the handler has finished nothing although records wait. What it has finished counts, not the
        checkpoint, which a setting may delay. An empty page with lag proves neither that the shard is quiet nor that it
        stands still.
        """
        position, has_more = self._progress.finished, waits or self._behind != 0
        if position != self._position or not has_more:
            self._position, self._standing_since = position, now
        return now - self._standing_since

    def _show_standing(self, now: datetime, waits: bool) -> None:
        age, position = self._stands_still(now, waits), self._position
        is_trouble = age >= STANDS_STILL_AFTER
        self._put(Metric.CHECKPOINT_AGE, age // MILLISECOND, is_trouble=is_trouble)
        if is_trouble:
            self._log.warning(
                "a shard's position does not move, although records wait",
                shard_id=self._shard_id,
                seconds=int(age.total_seconds()),
                position=str(position),
            )

    def _show_unfinished(self, now: datetime) -> None:
        """Puts the metric only for manual checkpointing: otherwise the handler keeps nothing from one call to the
        next.
        """
        if not self._progress.is_by_hand:
            return
        since = self._progress.oldest_unfinished_at
        age = timedelta(0) if since is None else now - since
        self._put(Metric.OLDEST_UNFINISHED_AGE, age // MILLISECOND, is_trouble=age >= STANDS_STILL_AFTER)
        if age >= STANDS_STILL_AFTER:
            self._log_unfinished(now, age)

    def _log_unfinished(self, now: datetime, age: timedelta) -> None:
        """Writes a log line, but not every minute: a handler may keep records for long on purpose."""
        logged_at = self._logged_unfinished_at
        if logged_at is not None and now - logged_at < STANDS_STILL_AFTER:
            return
        self._logged_unfinished_at = now
        self._log.warning(
            "handler has not checkpointed records that it received long ago",
            shard_id=self._shard_id,
            seconds=int(age.total_seconds()),
            records=self._progress.unfinished_records,
            position=str(self._progress.finished),
        )

    def _put(self, metric: Metric, value: float, *, is_trouble: bool) -> None:
        self._metrics.put(metric, value, shard_id=self._shard_id, in_trouble=is_trouble)
