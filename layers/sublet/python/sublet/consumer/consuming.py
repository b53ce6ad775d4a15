"""A callback called with each record, in threads of its own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from threading import get_ident

from sublet.consumer.lanes import Lanes
from sublet.consumer.membership import Membership
from sublet.consumer.pulling import Records
from sublet.consumer.record import Record
from sublet.decisions.window import handler_backoff
from sublet.errors import SettingsError
from sublet.handlers.contract import check_ran, misfit
from sublet.ports import Task, Tasks
from sublet.settings import Settings

Callback = Callable[[Record], object]

WAITS_FOR_ITSELF = (
    "wait() in the callback would wait for its own end: call stop() or drain() there, "
    "and wait() where consume() was called"
)

CTRL_C_NOTICED_WITHIN = timedelta(seconds=1)
"""A signal that comes just before a wait without a limit begins does not end that wait (CPython)."""


def check_callback(callback: object) -> None:
    """Raises SettingsError for one of which a call would run nothing: its records would count as done."""
    problem = misfit(callback, ("record",), is_awaited=False)
    if problem is not None:
        raise SettingsError("callback", callback, f"it {problem}")


class Consuming:
    """A consume under way.

    A callback that raises leaves its record to come again after `handler_backoff`, longer with each time; the log and an event
    tell it.
    With `auto_ack` a record is done when its call has returned.
    """

    def __init__(
        self,
        records: Records,
        callback: Callback,
        *,
        tasks: Tasks,
        settings: Settings,
        auto_ack: bool,
        lanes: int | None,
        bound: int,
    ) -> None:
        self._records = records
        self._callback = callback
        self._settings = settings
        self._auto_ack = auto_ack
        self._is_stopped = False
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
        """At once: no call begins any more, and what is buffered goes back. From any thread, the callback too."""
        self._is_stopped = True
        self._records.stop()

    def drain(self) -> None:
        """Nothing new comes: the callback is called with what is buffered, then it is over. From any thread, the callback too."""
        self._records.drain()

    def wait(self) -> None:
        """Until it is over. Raises what has ended it, such as LeaseTableNotFound or StreamNotFound; and RuntimeError in the
        callback, which would wait for itself."""
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
        """A record whose key has failed while it waited in its lane is void, and comes again after that one. `ack_wait` begins
        with the call."""
        if record.in_progress():
            self._call(record)

    def _call(self, record: Record) -> None:
        caller, membership = get_ident(), self._records.membership
        if self._is_stopped or not membership.begin_call(caller):
            record.nak()
            return
        self._calling.add(caller)
        try:
            returned = self._callback(record)
            if (
                self._auto_ack
            ):  # who acknowledges by hand may well have left it to others, and return their Future
                check_ran(returned)
        except BaseException as failure:  # noqa: BLE001 - whatever the user's code raises, SystemExit too: the others go on
            come_again(record, failure, self._settings, membership)
        else:
            if self._auto_ack:
                record.ack()
        finally:
            self._calling.discard(caller)
            membership.end_call(caller)


def come_again(record: Record, failure: BaseException, settings: Settings, membership: Membership) -> None:
    """Have a record come again whose callback raised, unless nothing hangs on it any more."""
    again_after = handler_backoff(record.attempt, settings)
    if record.nak(again_after):
        what = f"{type(failure).__name__}; {record!r} comes again after {again_after}"
        membership.tell_callback_failed(record.shard_id, what, failure)
