"""Every port in memory: for tests, simulations, and a first try without AWS."""

from __future__ import annotations

from random import Random

from sublet.decisions.time_and_chance import Chance
from sublet.engine.manager.memory_sightings import MemorySightingStore
from sublet.ports import (
    Clock,
    ControlStore,
    FailureDestination,
    LeaseTable,
    Log,
    Metrics,
    Ports,
    SchemaRegistry,
    SightingStore,
    SketchStore,
    Stream,
    Tasks,
    Traces,
)
from sublet.system.clock import SystemClock
from sublet.system.threads import ThreadTasks
from sublet.testing.memory.failure_destination import MemoryDestination
from sublet.testing.memory.fleet import MemoryWorkerReports
from sublet.testing.memory.lease_table import MemoryLeaseTable
from sublet.testing.memory.schema_registry import MemorySchemaRegistry
from sublet.testing.memory.stores import MemoryControlStore, MemorySketchStore
from sublet.testing.memory.stream import MemoryStream
from sublet.testing.memory.telemetry import MemoryLog, MemoryMetrics


def memory_ports(
    stream: Stream | None = None,
    table: LeaseTable | None = None,
    *,
    sightings: SightingStore | None = None,
    clock: Clock | None = None,
    tasks: Tasks | None = None,
    chance: Chance | None = None,
    metrics: Metrics | None = None,
    log: Log | None = None,
    destination: FailureDestination | None = None,
    control: ControlStore | None = None,
    sketches: SketchStore | None = None,
    schemas: SchemaRegistry | None = None,
    traces: Traces | None = None,
) -> Ports:
    """New, empty ports, except for those given. The clock is the machine's, and the tasks are its threads."""
    clock, table = clock or SystemClock(), table or MemoryLeaseTable()
    return Ports(
        table=table,
        stream=stream or MemoryStream(clock=clock),
        sightings=sightings or MemorySightingStore(),
        clock=clock,
        tasks=tasks or ThreadTasks(),
        chance=chance or Random(0),  # noqa: S311 - the same choices in every run
        metrics=metrics or MemoryMetrics(),
        log=log or MemoryLog(),
        destination=destination or MemoryDestination(),
        reports=MemoryWorkerReports(table) if isinstance(table, MemoryLeaseTable) else None,
        control=control or MemoryControlStore(),
        sketches=sketches or MemorySketchStore(),
        schemas=schemas or MemorySchemaRegistry(),
        traces=traces,
    )
