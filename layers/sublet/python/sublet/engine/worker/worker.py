"""The lease worker: runs windows over a few leases each, within the limits of its process."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any

from sublet.decisions.manager.packing import WorkerItem
from sublet.decisions.session.process_health import ShardReport
from sublet.decisions.session.record_filter import RecordFilter
from sublet.decisions.session.window import WindowReport, after_window
from sublet.engine.calls.call_limits import CallGuard
from sublet.engine.control_watch import ControlWatch
from sublet.engine.process_health import LeftBehind, ProcessHealth
from sublet.engine.process_shared import Budget, NamedLocks, ProcessShared, QuietShards, StrayAggregates
from sublet.engine.worker.window import Window
from sublet.handler import Handler
from sublet.ports import Ports, Signal
from sublet.settings import Settings


class LeaseWorker:
    """One for each process. Its limits hold over all windows of the process; several may run at once.

    health      whether the process should end, and why: for its runtime, which can end it
    watch       what an operator has ordered, for the process's own lease manager too
    consuming   the lease keys that a window of this process has, until the last handler call for them has returned. No
                other window may begin with one of them, even if the lease was lost and is free again
    """

    def __init__(
        self,
        ports: Ports,
        handler: Handler,
        settings: Settings,
        *,
        replaced_at_once: bool = False,
        asks: bool = False,
    ) -> None:
        self.ports = ports
        self._clock, self._metrics = ports.clock, ports.metrics
        self.health = ProcessHealth(
            ports,
            settings.handler_slots,
            replaced_at_once=replaced_at_once,
            is_exclusive=settings.is_called_one_at_a_time,
        )
        self.watch = ControlWatch(ports)
        self._quiet = QuietShards(ports.tasks)
        guard = CallGuard(ports, settings, self.health)
        self._threads = guard.threads
        self._shared = ProcessShared(
            ports,
            handler,
            settings,
            Budget(settings.max_bytes_in_flight, settings.max_records_in_flight, ports.tasks),
            self._quiet,
            guard,
            RecordFilter(settings),
            StrayAggregates(ports),
            deaggregation=ports.tasks.lock(),
            watch=self.watch,
            asks=asks,
            decode=_decoder(settings, ports),
        )
        self._consuming = NamedLocks(ports.tasks)
        self._windows: list[Window] = []

    def run_window(
        self,
        item: WorkerItem,
        invocation_id: str,
        deadline: datetime,
        stop: Signal | None = None,
        cut_off: datetime | None = None,
    ) -> WindowReport:
        """Consume the item's leases until `deadline` (by the steady clock), or until `stop` is set, which ends the
        window early.

        `invocation_id` is unique to this attempt. `cut_off`: when the runtime ends this process, whatever it is doing;
        a handler call that still runs shortly before is given up. Raises only unexpected errors, after every lease is
        released.
        """
        self._shared.note_auto(item.auto_seen_at)
        window = Window(self._shared, self._consuming, item, f"{item.item_id}/{invocation_id}", deadline, stop, cut_off)
        self._windows.append(window)
        try:
            return after_window(item, window.run())
        except BaseException as fault:
            self.health.note(fault)
            raise
        finally:
            self._windows.remove(window)
            self._metrics.flush()

    def close(self) -> None:
        """No more windows will run. Threads that are kept for handler calls end."""
        self._threads.close()

    def poll_quiet_shards(self) -> None:
        """Poll them early, because a caller waits for records."""
        self._quiet.ask(self._clock.steady())

    def states(self) -> tuple[ShardReport, ...]:
        """The states of the shards whose leases are held now."""
        return tuple(state for window in list(self._windows) for state in window.states())

    def release(self, lease_keys: Collection[str]) -> None:
        """Release those of these leases that are held, as soon as possible."""
        for window in list(self._windows):
            window.release(lease_keys)

    def left(self) -> tuple[LeftBehind, ...]:
        """The leases that are held now, for a process that cannot wait until they are released."""
        return tuple(left for window in list(self._windows) for left in window.left())


def _decoder(settings: Settings, ports: Ports) -> Callable[[bytes], Any] | None:
    """Raises SettingsError for a schema's file or a package that is missing, before any lease is acquired."""
    if settings.payload_format is None:
        return None
    from sublet.payloads.decoding import decoder_of_setting  # noqa: PLC0415 - most consumers start without it

    return decoder_of_setting(settings.payload_format, ports.schemas)
