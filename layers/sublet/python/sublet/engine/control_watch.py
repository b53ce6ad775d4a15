"""What an operator has ordered for the leases, as far as this process knows: read every ten seconds, and by each
tick.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from sublet.decisions.manager.liveness import ahead_by
from sublet.decisions.session.control import READ_EVERY, paused
from sublet.errors import CallFailed, ControlUnreadable
from sublet.ports import Ports
from sublet.protocol.control import NO_CONTROL, Control, Pause
from sublet.protocol.lease import Lease


class ControlWatch:
    """One for each process. While the control cannot be read, the last one that was read counts. If there is none,
    nothing is paused: one bad item must not stop a fleet.
    """

    def __init__(self, ports: Ports) -> None:
        self._clock, self._log, self._store = ports.clock, ports.log, ports.control
        self._lock = ports.tasks.lock()
        """Guards all fields below; `_known` may be read without it. Held during a read: windows that ask at once read
        once.
        """
        self._known = NO_CONTROL
        self._read_at: datetime | None = None
        self._has_warned = False
        self._ahead = timedelta(0)
        """How far this machine's clock is ahead of the store's."""

    @property
    def known(self) -> Control:
        """The control that was last read. Makes no call."""
        return self._known

    def look(self) -> Control:
        """Reads the control now."""
        with self._lock:
            return self._read()

    def current(self) -> Control:
        """The control, at most READ_EVERY old."""
        with self._lock:
            now = self._clock.steady()
            if self._read_at is not None and now - self._read_at < READ_EVERY:
                return self._known
            return self._read()

    def pauses(self, leases: Iterable[Lease]) -> Mapping[str, Pause]:
        """The pause of each paused lease, by lease key. Reads the control now."""
        return paused(self.look(), leases, self.now)

    @property
    def now(self) -> datetime:
        """The moment by the store's clock, as far as its last answer says. Pauses end by it, whatever this machine's
        says.
        """
        return self._clock.now() - self._ahead

    def _read(self) -> Control:
        store = self._store
        if store is None:
            return self._known
        self._read_at = self._clock.steady()
        try:
            self._known, self._has_warned = store.control(), False
            self._ahead = ahead_by(self._clock.now(), store.answered_at)
        except (ControlUnreadable, CallFailed) as problem:
            if not self._has_warned:
                self._has_warned = True
                self._log.warning(
                    "could not read the operator's orders; using the last ones read",
                    error=type(problem).__name__,
                    problem=str(problem),
                    is_paused=self._known.application is not None,
                    paused_leases=len(self._known.leases),
                )
        return self._known
