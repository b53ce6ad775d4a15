"""All ports of an application, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sublet.decisions.time_and_chance import Chance
    from sublet.payloads.schema_registry import SchemaRegistry
    from sublet.ports.fleet import WorkerReports
    from sublet.ports.lease_table import LeaseTable
    from sublet.ports.machine import Clock, Tasks
    from sublet.ports.set_aside import FailureDestination
    from sublet.ports.stores import ControlStore, SightingStore, SketchStore
    from sublet.ports.stream import Pushes, Stream, Streams
    from sublet.ports.telemetry import Log, Metrics, Traces


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything an application needs from the world, made in one place: `sublet.aws.ports.aws_ports`,
    `sublet.testing.memory.memory_ports`.

    Besides these a lease manager needs a Dispatcher, which the runtime provides, and a lease worker a Handler, which
    the user does.
    """

    table: LeaseTable
    stream: Stream
    sightings: SightingStore
    clock: Clock
    tasks: Tasks
    chance: Chance
    metrics: Metrics
    log: Log
    destination: FailureDestination | None = None
    """None without the setting `on_failure`: no record is ever set aside."""
    reports: WorkerReports | None = None
    """None if we do not report to a KCL 3.x leader, which then assigns us nothing."""
    control: ControlStore | None = None
    """None if no operator can pause this application's leases."""
    sketches: SketchStore | None = None
    """None if no sketches are made."""
    pushes: Pushes | None = None
    """None if shards are read by polls."""
    schemas: SchemaRegistry | None = None
    """None if the setting `payload_format` needs no registry."""
    streams: Streams | None = None
    """The streams of an application of several; `stream` then goes to each of them. None if it reads one."""
    traces: Traces | None = None
    """None if no spans are wanted."""
