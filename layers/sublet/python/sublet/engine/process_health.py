"""What has befallen this process that would not befall the next one: noted as it happens, told to who can end it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from sublet.decisions.process_end import Ending, Health, lacking
from sublet.ports import Ports


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
        self._log = ports.log
        self._lock = ports.tasks.lock()
        self._hung: Counter[str] = Counter()
        self._replaced_at_once = replaced_at_once
        self._told: list[Callable[[], None]] = []

    @property
    def ends_now(self) -> Ending | None:
        return self._state.ends_now

    @property
    def ending(self) -> Ending | None:
        """Why the process is to end once its windows are over; None: it goes on."""
        return self._state.ends_soon if self._replaced_at_once else self._state.ends_now

    @property
    def hung(self) -> int:
        """Calls that hang now."""
        return self._state.hung

    def is_hung(self, lease_key: str) -> bool:
        """Whether a call for the lease is still under way that has been given up."""
        return self._hung[lease_key] > 0

    def hangs(self, lease_key: str) -> None:
        with self._lock:
            self._hung[lease_key] += 1
            self._become(replace(self._state, hung=self._state.hung + 1))

    def hangs_no_more(self, lease_key: str) -> None:
        with self._lock:
            self._hung[lease_key] -= 1
            self._become(replace(self._state, hung=self._state.hung - 1))

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
        was, self._state = self._state, state
        if was.ends_now is None and state.ends_now is not None:
            self._log.error("this process ends", because=state.ends_now.value)
            for tell in list(self._told):
                tell()
