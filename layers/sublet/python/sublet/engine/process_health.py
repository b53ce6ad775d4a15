"""What has befallen this process that would not befall the next one: noted as it happens, told to who can end it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from sublet.decisions.process_end import Ending, Health, is_stuck, lacking
from sublet.decisions.process_report import ShardState
from sublet.ports import Ports


class HungCall(NamedTuple):
    """A call of the handler that has been given up. `began_at`: by the steady clock."""

    lease_key: str
    shard_id: str
    what: str
    began_at: datetime


class ProcessHealth:
    """One for each process; any thread may note.

    `replaced_at_once`: on Lambda, where ending a process costs a cold start. It then gives back all leases at the end of a window
    in which a call hangs, since it will not begin another.
    """

    def __init__(
        self, ports: Ports, slots: int, *, replaced_at_once: bool = False, is_exclusive: bool = False
    ) -> None:
        self.finished_at: dict[str, datetime] = {}
        """By lease key, when its handler last finished a record, by the steady clock."""
        self._state = Health(slots, is_exclusive=is_exclusive)
        self._ends: Ending | None = None
        self._log = ports.log
        self._clock = ports.clock
        self._lock = ports.tasks.lock()
        self._hung: list[HungCall] = []
        self._replaced_at_once = replaced_at_once
        self._told: list[Callable[[], None]] = []

    @property
    def ends_now(self) -> Ending | None:
        """Once and for all: what hung may come back while everything is being given back."""
        return self._ends

    @property
    def ending(self) -> Ending | None:
        """Why the process is to end once its windows are over; None: it goes on."""
        return self._ends or (self._state.ends_soon if self._replaced_at_once else None)

    @property
    def hung(self) -> int:
        """Calls that hang now."""
        return self._state.hung

    def hung_calls(self) -> tuple[ShardState, ...]:
        """Those, for whoever looks. What else became of their shards is not known here: others may have them."""
        now, nothing = self._clock.steady(), timedelta(0)
        with self._lock:
            return tuple(
                ShardState(call.shard_id, nothing, call.what, now - call.began_at, None)
                for call in self._hung
            )

    def is_hung(self, lease_key: str) -> bool:
        """Whether a call for the lease is still under way that has been given up."""
        with self._lock:
            return any(call.lease_key == lease_key for call in self._hung)

    def hangs(self, call: HungCall) -> None:
        with self._lock:
            self._hung.append(call)
            self._become(replace(self._state, hung=len(self._hung)))

    def hangs_no_more(self, call: HungCall) -> None:
        with self._lock:
            self._hung.remove(call)
            self._become(replace(self._state, hung=len(self._hung)))

    def has_chosen(self, lease_keys: Collection[str], *, is_at_work: bool) -> None:
        """What a look has found for this process to begin with, beside what it is at work on."""
        with self._lock:
            stuck = is_stuck(lease_keys, {call.lease_key for call in self._hung}, is_at_work=is_at_work)
            self._become(replace(self._state, is_stuck=stuck))

    def note(self, failure: BaseException) -> None:
        """A fault, which may come from what the system would not give."""
        lacks = lacking(failure)
        if lacks is not None:
            with self._lock:
                self._become(replace(self._state, lacking=lacks))

    def when_it_ends_now(self, tell: Callable[[], None]) -> Callable[[], None]:
        """Have `tell` called as soon as nothing more can be done here; calling what is returned is no longer to be told."""
        self._told.append(tell)
        if self.ends_now is not None:
            tell()
        return lambda: self._told.remove(tell)

    def _become(self, state: Health) -> None:
        self._state = state
        if self._ends is None and state.ends_now is not None:
            self._ends = state.ends_now
            self._log.error("this process ends", because=self._ends.value)
            for tell in list(self._told):
                tell()
