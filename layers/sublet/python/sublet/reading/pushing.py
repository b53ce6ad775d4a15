"""Reads a shard by push: SubscribeToShard sends its records as they arrive, within milliseconds.

The reader has no thread. Its caller's thread waits at the connection, so records that are not asked for stay there: a
slow handler stops the sender, and memory holds one page of a shard. What to do after each event, end and silence is
decided in `decisions/push`.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sublet.decisions.session.push import (
    NoContinuation,
    PushAction,
    PushEnd,
    PushStep,
    SubscriptionState,
    ending,
    is_silent,
    next_step,
)
from sublet.decisions.session.read_position import ReadPosition
from sublet.decisions.time_and_chance import Chance
from sublet.ports import (
    Clock,
    PollRefusal,
    Pushes,
    Refusal,
    ShardReader,
    ShardSubscription,
    Stream,
    Tasks,
    Unanswered,
)
from sublet.protocol.records import Page

READ_WAITS = timedelta(seconds=1)
"""The longest that a read waits for an event."""

LISTENS = timedelta(seconds=5)
"""The longest that one wait at the connection lasts; then the clocks are looked at again."""


class UnregisteredConsumer:
    """The Pushes port for a consumer that could not be registered because the stream has too many. Each shard is polled
    instead, and a log line and a metric say so.
    """

    def subscribe(self, shard_id: str, position: ReadPosition) -> PushEnd:  # noqa: ARG002 - it has none
        return PushEnd.NO_CONSUMER


class FanOutReader:
    """The PushReader port."""

    def __init__(
        self,
        pushes: Pushes,
        stream: Stream,
        shard_id: str,
        position: ReadPosition,
        clock: Clock,
        tasks: Tasks,
        chance: Chance,
    ) -> None:
        self._pushes = pushes
        self._stream = stream
        self._shard_id = shard_id
        self._clock = clock
        self._chance = chance
        self._known = SubscriptionState(position)
        self._subscription: ShardSubscription | None = None
        self._interrupted = tasks.signal()
        self._rest: Page | None = None
        """What is left of an event with more records than the last read wanted."""
        self._refusal: Refusal | None = None
        """The refusal that the next read returns, because the last call was refused. So repeated refusals show in the
        metrics.
        """
        self._polls: ShardReader | None = None
        self._as_of, self._listened_until = clock.now(), clock.steady()

    @property
    def is_polling(self) -> bool:
        return self._polls is not None

    @property
    def as_of(self) -> datetime | None:
        return None if self.is_polling else self._as_of

    def open(self) -> None:
        """Does nothing: the first wait subscribes, since a call may have to wait for another subscription."""

    def wait(self, longest: timedelta) -> bool:
        began = self._clock.steady()
        self._known = self._known.resumed(began - self._listened_until)
        try:
            return self._wait(began + longest)
        finally:
            self._listened_until = self._clock.steady()

    def _wait(self, over: datetime) -> bool:
        while not self._interrupted.is_set():
            if self._rest is not None or self._polls is not None or self._refusal is not None:
                return True
            now = self._clock.steady()
            if self._carry_out(next_step(self._known, now), over - now):
                return True
            if self._clock.steady() >= over:
                return False
        return False

    def read(self, limit: int) -> Page | Refusal:
        if self._polls is not None:
            return self._polls.read(limit)
        if self._rest is None and not self.wait(READ_WAITS):
            return PollRefusal.NOT_YET
        if self._refusal is not None:
            refused, self._refusal = self._refusal, None
            return refused
        if self._rest is None:
            refusal = self._receive()
            if refusal is not None:
                return refusal
        return self._cut(limit)

    def interrupt(self) -> None:
        self._interrupted.set()
        subscription = self._subscription
        if subscription is not None:
            subscription.interrupt()

    def close(self) -> None:
        self._drop()

    def _carry_out(self, step: PushStep, left: timedelta) -> bool:
        """Do what was decided. Returns whether a read will find something."""
        match step.act:
            case PushAction.POLL:
                return True
            case PushAction.WAIT:
                assert step.until is not None, "a wait has an end"
                self._interrupted.wait(min(step.until - self._clock.steady(), left))
                return False
            case PushAction.SUBSCRIBE:
                self._subscribe()
                return False
        return self._listen(step, left)

    def _subscribe(self) -> None:
        """A subscription that is to be renewed stays until another one has begun."""
        begun_at = self._clock.now()
        answer = self._pushes.subscribe(self._shard_id, self._known.position)
        if isinstance(answer, PushEnd | Unanswered):
            if self._subscription is not None and answer is not PushEnd.NO_CONSUMER:
                self._known = self._known.put_off(self._clock.steady(), self._chance)
            else:
                self._refused(answer)
            return
        self._drop()
        self._subscription, self._as_of = answer, begun_at
        self._known = self._known.begun(self._clock.steady(), self._chance)
        if self._interrupted.is_set():  # it was set before the subscription could be seen
            answer.interrupt()

    def _listen(self, step: PushStep, left: timedelta) -> bool:
        assert self._subscription is not None, "only a subscription can be listened to"
        assert step.until is not None, "listening has an end"
        now, at = self._clock.steady(), self._clock.now()
        if is_silent(self._known, now):
            self._over(PushEnd.SILENT)
            return False
        has_come = self._subscription.wait(timedelta(0))
        if not has_come:
            self._as_of = at  # all that was sent before has been read
            has_come = self._subscription.wait(max(min(step.until - now, left, LISTENS), timedelta(0)))
        return has_come

    def _receive(self) -> Refusal | None:
        """Takes the next event into `_rest` and returns None. If there is no event, returns why."""
        if next_step(self._known, self._clock.steady()).act is PushAction.POLL:
            self._poll()
            return PollRefusal.NOT_PUSHED
        assert self._subscription is not None, "wait has found something"
        came = self._subscription.next()
        if isinstance(came, Unanswered):
            self._over(PushEnd.REFUSED)
            return came
        if isinstance(came, PushEnd):
            self._over(came)
            return PollRefusal.NOT_YET
        if came.continuation is None:
            return self._ended(came.page)
        self._known = self._known.moved(came.continuation, self._clock.steady())
        self._rest = self._with_lag(came.page, self._subscription.has_more)
        return None

    def _ended(self, page: Page) -> Refusal | None:
        """Checks an event that says that the shard has ended. If that is not so, the position stays where it is, so the
        event's records are read again.
        """
        meaning = ending(self._shard_id, page.child_shards, self._stream.list_shards())
        if meaning is NoContinuation.SHARD_ENDED:
            self._rest = page._replace(is_shard_end=True)
            self._drop()
            return None
        self._over(PushEnd.NOT_AN_END)
        if meaning is NoContinuation.ASK_BY_POLLS:
            self._poll()
        return PollRefusal.NOT_YET

    def _poll(self) -> None:
        """Read by polls from now on."""
        self._polls = self._stream.reader(self._shard_id, self._known.position)

    def _with_lag(self, page: Page, has_more: bool) -> Page:
        """Corrects the lag if more has come since: the service's figure is as of when it sent the event."""
        if not has_more or not page.records:
            return page
        behind = self._clock.now() - page.records[-1].approximate_arrival_timestamp
        return page._replace(millis_behind_latest=max(page.millis_behind_latest, behind // timedelta(milliseconds=1)))

    def _cut(self, limit: int) -> Page:
        """Takes at most `limit` records of what has come. The rest waits for the next read."""
        page, self._rest = self._rest, None
        assert page is not None, "something has come"
        if len(page.records) <= limit:
            return page
        first, rest = page.records[:limit], page.records[limit:]
        size = sum(len(record.data) for record in first)
        self._rest = page._replace(records=rest, data_bytes=page.data_bytes - size)
        behind = max(page.millis_behind_latest, 1)
        return Page(first, size, behind)

    def _refused(self, answer: PushEnd | Unanswered) -> None:
        if isinstance(answer, Unanswered):
            self._over(PushEnd.REFUSED)
            self._refusal = answer
        else:
            self._over(answer)
            self._refusal = PollRefusal.THROTTLED if answer is PushEnd.IN_USE else None

    def _over(self, end: PushEnd) -> None:
        self._drop()
        self._known = self._known.over(end, self._clock.steady(), self._chance)

    def _drop(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            subscription.close()
