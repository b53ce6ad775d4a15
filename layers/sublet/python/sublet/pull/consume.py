"""`Consumer.consume`: a callback called with each record, in threads of its own, and what asyncio's `consume` shares with it."""

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
"""How soon Ctrl-C is noticed. In CPython a signal that arrives just before a wait without a limit begins does not end that wait.
"""


def check_callback(callback: object) -> None:
    """Raises SettingsError for a callback whose call would run nothing: its records would count as done."""
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
        """Returns whether to call; if not, the record goes back. `caller`: this thread or task."""
        if self.is_stopped or not self._session.begin_call(caller):
            record.nak()
            return False
        return True

    def check(self, returned: object) -> None:
        """Raises an error if the call ran nothing. One that acknowledges by hand may return a Future, of whatever acknowledges
        later.
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

    If the callback raises, its record comes again after `handler_backoff`, which grows with each attempt; the log and an event
    say so. With `auto_ack` a record is done when its call has returned.
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
        """The threads that are in the callback."""
        self._lanes = None if lanes is None else Lanes(self._call_if_out, lanes, bound, tasks)
        self._is_over = tasks.signal()
        self._running: Task[None] = tasks.spawn(self._run)

    @property
    def closed(self) -> bool:
        """Whether it is over: the last call has returned, and outside of `with consumer:` the leases are released."""
        return self._is_over.is_set()

    def stop(self) -> None:
        """End at once: no further call begins, and what is buffered goes back. Any thread may call this, even the callback."""
        self._calls.is_stopped = True
        self._records.stop()

    def drain(self) -> None:
        """End after what is buffered: nothing new comes, and the callback is still called with that. Any thread may call this,
        even the callback.
        """
        self._records.drain()

    def wait(self) -> None:
        """Wait until it is over. Raises what has ended it, such as LeaseTableNotFound or StreamNotFound; in the callback, which
        would wait for itself, RuntimeError.
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
        """If an earlier record of its key failed while this one waited in its lane, this one is void and comes again after that.
        `ack_wait` begins with the call.
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


class Lane:
    """A thread, and the records that wait for it."""

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


class Lanes:
    """Calls side by side, in order within each partition key. Only one thread may put.

    bound  how many records may wait in all lanes together: so one hot key leaves room for other keys
    """

    def __init__(self, call: Callable[[Record], None], count: int, bound: int, tasks: Tasks) -> None:
        self._call = call
        self._bound = bound
        self._tasks = tasks
        self._called = tasks.signal()
        self._lanes = [Lane(self._call_and_tell, tasks) for _ in range(count)]

    def put(self, record: Record) -> None:
        """Into its key's lane. Waits while too many records wait."""
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
