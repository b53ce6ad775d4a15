"""Pauses, drains, releases and skips as changes that the console plans, shows and carries out."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta

from sublet.decisions.plurals import counted
from sublet.errors import ControlRefused
from sublet.operate.console.applications import OpenApplication
from sublet.operate.console.plans import PlanRow, PreparedChange
from sublet.operate.formatting import time_text
from sublet.operate.pausing import ApplicationControl, OrderedPause
from sublet.operate.positions.skip import planned_skip, skip
from sublet.protocol.control import Order, Pause
from sublet.protocol.lease import Lease, shard_id_of

DRAIN_TIMEOUT = timedelta(minutes=15)
RELEASE_TIMEOUT = timedelta(minutes=5)

Ends = Callable[[datetime], datetime]

EFFECTS = {Order.PAUSE: "pauses", Order.DRAIN: "drains", Order.RELEASE: "releases"}


def pausing_of(application: OpenApplication) -> ApplicationControl:
    return ApplicationControl(application.name, application.ports, application.settings)


def command_of(name: str, application: OpenApplication, *options: str, shards: Sequence[str] = ()) -> str:
    """Returns the command that does the same in a terminal."""
    named = [part for shard in shards for part in ("--shard", shard)]
    return shlex.join(["sublet", name, "--application", application.name, *named, *options])


def prepare_pause(application: OpenApplication, by: str, shards: Collection[str], ends: Ends | None) -> PreparedChange:
    """Prepares a pause. It returns once the pause is ordered: owners release within a tick or ten seconds. Raises
    ControlRefused.
    """
    pausing = pausing_of(application)
    pause = pausing.pause(Order.PAUSE, by, ends)

    def run() -> str:
        ordered = pausing.order(pause, shards)
        held = f"{len(ordered.held)} still held, to be released within ten seconds" if ordered.held else "none is held"
        return f"{counted(len(ordered.leases), 'lease')} paused; {held}."

    return _prepared(
        pausing.planned(pause, shards),
        run,
        lambda: 0,
        undone_by=f"sublet resume --application {application.name}",
    )


def prepare_drain(application: OpenApplication, by: str) -> PreparedChange:
    """Prepares a drain, which waits until every lease is released. Raises ControlRefused."""
    pausing = pausing_of(application)
    planned = pausing.planned(pausing.pause(Order.DRAIN, by))
    waiting = _ReleaseProgress()

    def run() -> str:
        left = pausing.drain(by, DRAIN_TIMEOUT, waiting.show(len(planned.leases))).held
        if left:
            raise ControlRefused(f"{_named(left)} not released in time; the drain stays in force until a resume")
        return "Every lease is released, and none is taken until a resume."

    undo = f"sublet resume --application {application.name}"
    return _prepared(planned, run, lambda: waiting.released, undone_by=undo)


def prepare_release(application: OpenApplication, by: str, shard: str) -> PreparedChange:
    """Prepares a release, which waits until the owner has released the lease, and then withdraws the request. Raises
    ControlRefused.
    """
    pausing = pausing_of(application)
    planned = pausing.planned(pausing.pause(Order.RELEASE, by, lambda now: now + RELEASE_TIMEOUT), [shard])

    def run() -> str:
        left = pausing.release(by, shard, RELEASE_TIMEOUT, lambda _: None).held
        if left:
            raise ControlRefused(f"{_named(left)} not released in time; the request is withdrawn")
        return "The lease is released. A worker takes it again at the next tick."

    return _prepared(planned, run, lambda: 0)


def prepare_resume(application: OpenApplication, shards: Collection[str]) -> PreparedChange:
    """Prepares the end of pauses. Raises ControlRefused and ControlUnreadable."""
    pausing = pausing_of(application)
    control = pausing.standing()
    standing = (
        dict(control.leases)
        if control.application is None
        else {application.name: control.application, **control.leases}
    )
    meant = {key: pause for key, pause in standing.items() if not shards or shard_id_of(key) in shards}
    rows = tuple(
        PlanRow(key, "resumes", pause_text(pause), "workers take it again") for key, pause in sorted(meant.items())
    )

    def run() -> str:
        return f"{counted(len(pausing.resume(shards)), 'pause')} ended. The next tick sends workers."

    return PreparedChange(rows, f"{counted(len(rows), 'pause')} to end", run, lambda: 0)


def prepare_skip(application: OpenApplication, by: str, shard: str, wanted: int) -> PreparedChange:
    """Prepares a skip. Raises SeekRefused, StreamNotAdopted and what Stream raises."""
    ports, settings = application.ports, application.settings
    scan, shards = ports.table.scan(), ports.stream.list_shards()
    found = planned_skip(shard, wanted, application.known, scan, shards, ports, settings)
    where = application.aside.name

    def run() -> str:
        skip(found, application.aside.destination, application.snapshots, by, ports, settings)
        return f"{counted(len(found.plan.records), 'record')} kept in {where}, and skipped."

    rows = tuple(
        PlanRow(
            shard,
            "skips",
            str(record.checkpoint),
            f"kept in {where}",
            found.plan.lease.actual_owner,
            f"{len(record.data)} bytes, arrived {time_text(record.approximate_arrival_timestamp)}",
        )
        for record in found.plan.records
    )
    tried = (
        f"; the handler has failed {counted(found.plan.lease.attempts, 'time')}" if found.plan.lease.attempts else ""
    )
    return PreparedChange(
        rows,
        f"{found.plan.what}{tried}",
        run,
        lambda: 0,
        warning=f"No handler gets these records until a redrive from {where}.",
        undone_by=command_of("undo", application, *application.stream_option),
    )


def pause_text(pause: Pause) -> str:
    until = "until it is resumed" if pause.until is None else f"until {time_text(pause.until)}"
    return f"{pause.order} by {pause.by} since {time_text(pause.since)}, {until}"


class _ReleaseProgress:
    """Counts the leases that have been released, so that the page can show progress."""

    def __init__(self) -> None:
        self.released = 0

    def show(self, of: int) -> Callable[[Sequence[Lease]], None]:
        def left(leases: Sequence[Lease]) -> None:
            self.released = max(0, of - len(leases))

        return left


def _prepared(
    planned: OrderedPause, run: Callable[[], str], progress: Callable[[], int], undone_by: str = ""
) -> PreparedChange:
    effect, held = EFFECTS[planned.pause.order], {lease.lease_key for lease in planned.held}
    ends = planned.pause.until
    then = (
        "released, then taken again"
        if planned.pause.order is Order.RELEASE
        else "taken by no worker" + (" until it is resumed" if ends is None else f" until {time_text(ends)}")
    )
    rows = tuple(
        PlanRow(
            lease.shard_id,
            effect,
            "held" if lease.lease_key in held else "not held",
            then,
            lease.actual_owner,
        )
        for lease in planned.leases
    )
    return PreparedChange(
        rows, f"{len(rows)} {effect}, {len(held)} of them held now", run, progress, undone_by=undone_by
    )


def _named(leases: Sequence[Lease]) -> str:
    return ", ".join(f"{lease.lease_key} by {lease.actual_owner or 'a worker on its way'}" for lease in leases[:3])
