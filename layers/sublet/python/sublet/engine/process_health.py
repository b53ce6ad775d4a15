"""Notes faults that a new process would not have, and says why this process should be replaced."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from sublet.decisions.session.process_end import Health, ProcessEndReason, is_stuck, lacking
from sublet.decisions.session.process_health import ShardReport
from sublet.ports import Ports
from sublet.protocol.checkpoint import Checkpoint


class HungCall(NamedTuple):
    """A handler call that was given up and may still be running. `began_at`: by the steady clock."""

    lease_key: str
    shard_id: str
    what: str
    began_at: datetime


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """A lease whose process ends without releasing it.

    checkpoint  what its row says
    finished    how far its handler is
    call        the handler call that is running
    """

    lease_key: str
    checkpoint: Checkpoint
    finished: Checkpoint
    call: str | None

    def __str__(self) -> str:
        doing = "" if self.call is None else f", in a call of {self.call}"
        return f"{self.lease_key}, checkpoint {self.checkpoint}, handled up to {self.finished}{doing}"


class ProcessHealth:
    """One for each process; any thread may note a fault. `ends_at_once` is set when the process can do no more.

    `replaced_at_once`: on Lambda, where ending a process costs a cold start. After a call has hung, such a process
    releases all leases at the end of the window, since it will not begin another.
    """

    def __init__(self, ports: Ports, slots: int, *, replaced_at_once: bool = False, is_exclusive: bool = False) -> None:
        self.ends_at_once = ports.tasks.signal()
        """The signal is set once, after the lock is released, because its callbacks may take long."""
        self._lock = ports.tasks.lock()
        """Guards `_state`, `_ends` and `_hung`; a single one of them may be read without it."""
        self._state = Health(slots, is_exclusive=is_exclusive)
        self._ends: ProcessEndReason | None = None
        self._hung: list[HungCall] = []
        self._finished_at: dict[str, datetime] = {}
        """Needs no lock: each lease's session sets its own key, and it is read only after all of them have ended."""
        self._log = ports.log
        self._clock = ports.clock
        self._replaced_at_once = replaced_at_once

    @property
    def ends_now(self) -> ProcessEndReason | None:
        """Why the process can do no more. It stays set even if a call that hung returns while leases are released."""
        return self._ends

    @property
    def ending(self) -> ProcessEndReason | None:
        """Why the process is to end after its windows; None if it goes on."""
        return self._ends or (self._state.ends_soon if self._replaced_at_once else None)

    @property
    def hung(self) -> int:
        """How many calls hang now."""
        return self._state.hung

    def hung_calls(self) -> tuple[ShardReport, ...]:
        """The calls that hang now. Another worker may have their shards, so their progress is not known here."""
        now, nothing = self._clock.steady(), timedelta(0)
        with self._lock:
            return tuple(
                ShardReport(call.shard_id, nothing, call.what, now - call.began_at, None) for call in self._hung
            )

    def is_hung(self, lease_key: str) -> bool:
        """Whether a call for this lease was given up and still runs."""
        with self._lock:
            return any(call.lease_key == lease_key for call in self._hung)

    def note_hung(self, call: HungCall) -> None:
        with self._lock:
            self._hung.append(call)
            has_ended = self._become(replace(self._state, hung=len(self._hung)))
        self._set_signal(has_ended)

    def note_returned(self, call: HungCall) -> None:
        with self._lock:
            self._hung.remove(call)
            has_ended = self._become(replace(self._state, hung=len(self._hung)))
        self._set_signal(has_ended)

    def has_chosen(self, lease_keys: Collection[str], *, is_at_work: bool) -> None:
        """Notes the leases that a tick has chosen for this process. `is_at_work`: it is running windows."""
        with self._lock:
            stuck = is_stuck(lease_keys, {call.lease_key for call in self._hung}, is_at_work=is_at_work)
            has_ended = self._become(replace(self._state, is_stuck=stuck))
        self._set_signal(has_ended)

    def note(self, failure: BaseException) -> None:
        """Notes a fault, if it means that the system has no more threads, descriptors or memory for this process."""
        lacks = lacking(failure)
        if lacks is not None:
            with self._lock:
                has_ended = self._become(replace(self._state, lacking=lacks))
            self._set_signal(has_ended)

    def note_finished(self, lease_key: str) -> None:
        """The handler has finished records of this lease."""
        self._finished_at[lease_key] = self._clock.steady()

    @property
    def finished_at(self) -> dict[str, datetime]:
        """When the handler last finished a record of each lease, by lease key and the steady clock."""
        return dict(self._finished_at)

    def _become(self, state: Health) -> bool:
        """Notes that the process is to end. True if this is what ends it. The caller has the lock."""
        self._state = state
        has_ended = self._ends is None and state.ends_now is not None
        self._ends = self._ends or state.ends_now
        return has_ended

    def _set_signal(self, has_ended: bool) -> None:
        """Sets the signal. Called without the lock, since a callback may take locks of its own."""
        if has_ended and self._ends is not None:
            self._log.error("exiting", because=self._ends.value)
            self.ends_at_once.set()
