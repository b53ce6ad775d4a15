"""`Consumer.consume`: calls a callback with each record, in its own threads. Also what it shares with asyncio's
`consume`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import timedelta
from threading import get_ident

from sublet.errors import SettingsError
from sublet.handlers.contract import check_ran, misfit
from sublet.ports import Task, Tasks
from sublet.protocol.finished_ahead import lane_of
from sublet.pull.record import Record
from sublet.pull.session import GroupSession
from sublet.pull.subscription import LONG, Records

Callback = Callable[[Record], object]

WAITS_FOR_ITSELF = (
    "wait() in the callback would wait for its own end: call stop() or drain() there, "
    "and wait() where consume() was called"
)

CTRL_C_NOTICED_WITHIN = timedelta(seconds=1)
"""The longest wait before Ctrl-C is noticed. CPython does not end a wait without a limit if the signal came just before
it began.
"""


def check_callback(callback: object) -> None:
    """Raises SettingsError for a callback whose call would run nothing, because its records would count as done."""
    problem = misfit(callback, ("record",), is_awaited=False)
    if problem is not None:
        raise SettingsError("callback", callback, f"it {problem}")


class CallbackCalls:
    """What a consume does around each call of its callback, for threads and asyncio tasks alike."""

    def __init__(self, session: GroupSession, *, auto_ack: bool) -> None:
        self._session = session
        self._auto_ack = auto_ack
        self.is_stopped = False

    def begin(self, record: Record, caller: object) -> bool:
        """Returns whether to make the call. If not, the record goes back. `caller`: this thread or task."""
        if self.is_stopped or not self._session.begin_call(caller):
            record.nak()
            return False
        return True

    def check(self, returned: object) -> None:
        """Raises an error if the call ran nothing. A callback that acknowledges by hand may return a Future, for
        example of the task that will acknowledge.
        """
        if self._auto_ack:
            check_ran(returned)

    def succeed(self, record: Record) -> None:
        if self._auto_ack:
            record.ack()

    def fail(self, record: Record, failure: BaseException) -> None:
        self._session.callback_failed(record, failure)

    def end(self, caller: object) -> None:
        """Call this after `begin` returned True, whatever happened."""
        self._session.end_call(caller)


class Consuming:
    """A consume in progress.

    If the callback raises, its record comes again after `handler_backoff`, which grows with each attempt; this is
    logged and sent as an event. With `auto_ack` a record is done when its call has returned.
    """

    def __init__(
        self,
        records: Records,
        callback: Callback,
        *,
        tasks: Tasks,
        auto_ack: bool,
        lanes: int | None,
        bound: int,
    ) -> None:
        self._records = records
        self._callback = callback
        self._calls = CallbackCalls(records.session, auto_ack=auto_ack)
        self._calling: set[int] = set()
        """Threads in which the callback is running."""
        self._lanes = None if lanes is None else CallbackLanes(self._call_if_out, lanes, bound, tasks)
        self._is_over = tasks.signal()
        self._running: Task[None] = tasks.spawn(self._run)

    @property
    def closed(self) -> bool:
        """True once the last call has returned and, outside of `with consumer:`, the leases are released."""
        return self._is_over.is_set()

    def stop(self) -> None:
        """Start no further call, and put buffered records back. Any thread may call this, even the callback."""
        self._calls.is_stopped = True
        self._records.stop()

    def drain(self) -> None:
        """Read no new records, and end when the callback has been called with the buffered ones. Any thread may call
        this, even the callback.
        """
        self._records.drain()

    def wait(self) -> None:
        """Wait until `closed` is true. Raises the error that ended the consume, such as LeaseTableNotFound or
        StreamNotFound, or RuntimeError if the callback calls this, since it would wait for itself.
        """
        if get_ident() in self._calling:
            raise RuntimeError(WAITS_FOR_ITSELF)
        while not self._is_over.wait(CTRL_C_NOTICED_WITHIN):
            pass
        self._running.result()

    def _run(self) -> None:
        call = self._call if self._lanes is None else self._lanes.put
        try:
            for record in self._records:
                call(record)
        finally:
            if self._lanes is not None:
                self._lanes.finish()
            self._records.close()
            self._is_over.set()

    def _call_if_out(self, record: Record) -> None:
        """Skip a record if an earlier one of its key failed while it waited in its lane: it is void, and comes again
        after the failed one. `ack_wait` starts with the call.
        """
        if record.in_progress():
            self._call(record)

    def _call(self, record: Record) -> None:
        caller = get_ident()
        if not self._calls.begin(record, caller):
            return
        self._calling.add(caller)
        try:
            self._calls.check(self._callback(record))
        except BaseException as failure:  # noqa: BLE001 - whatever the callback raises, even SystemExit: the other calls go on
            self._calls.fail(record, failure)
        else:
            self._calls.succeed(record)
        finally:
            self._calling.discard(caller)
            self._calls.end(caller)


class CallbackLane:
    """A thread that calls the callback, and the records that wait for it."""

    def __init__(self, call: Callable[[Record], None], tasks: Tasks) -> None:
        self.waiting: deque[Record] = deque()
        self._call = call
        self._tasks = tasks
        self._changed = tasks.signal()
        self._is_over = False
        self._running: Task[None] = tasks.spawn(self._run)

    def put(self, record: Record) -> None:
        self.waiting.append(record)
        self._changed.set()

    def finish(self) -> None:
        """Returns when every record has been called for."""
        self._is_over = True
        self._changed.set()
        self._running.result()

    def _run(self) -> None:
        while True:
            self._changed = self._tasks.signal()  # before the look: a later put sets this one
            is_over = self._is_over
            while self.waiting:
                self._call(self.waiting.popleft())
            if is_over:
                return
            self._changed.wait(LONG)


class CallbackLanes:
    """Calls side by side, in order within each partition key. Only one thread may put records.

    bound  how many records may wait in all lanes together, so that one hot key leaves room for others
    """

    def __init__(self, call: Callable[[Record], None], count: int, bound: int, tasks: Tasks) -> None:
        self._call = call
        self._bound = bound
        self._tasks = tasks
        self._called = tasks.signal()
        self._lanes = [CallbackLane(self._call_and_tell, tasks) for _ in range(count)]

    def put(self, record: Record) -> None:
        """Put the record into its key's lane. Blocks while `bound` records wait."""
        while True:
            self._called = self._tasks.signal()
            if sum(len(lane.waiting) for lane in self._lanes) < self._bound:
                break
            self._called.wait(LONG)
        self._lanes[lane_of(record.user_record.order_key, len(self._lanes))].put(record)

    def _call_and_tell(self, record: Record) -> None:
        self._called.set()
        self._call(record)

    def finish(self) -> None:
        """Returns when every record has been called for."""
        for lane in self._lanes:
            lane.finish()
