"""The ports without a network: for tests, simulations and users' own tests.

They pass the same contract suite as `sublet.aws`.
"""

from sublet.engine.manager.memory_sightings import MemorySightingStore
from sublet.testing.memory.account import MemoryAccount
from sublet.testing.memory.clock import FakeClock
from sublet.testing.memory.failure_destination import MemoryDestination
from sublet.testing.memory.fleet import MemoryDispatcher, MemoryWorkerReports
from sublet.testing.memory.lease_table import MemoryLeaseTable
from sublet.testing.memory.ports import memory_ports
from sublet.testing.memory.pushes import MemoryFanOut
from sublet.testing.memory.record_writer import MemoryRecordWriter
from sublet.testing.memory.schema_registry import MemorySchemaRegistry
from sublet.testing.memory.stores import MemoryControlStore, MemorySnapshotStore
from sublet.testing.memory.stream import MemoryStream
from sublet.testing.memory.streams import MemoryStreams
from sublet.testing.memory.telemetry import LogLine, Measurement, MemoryLog, MemoryMetrics

__all__ = [
    "FakeClock",
    "LogLine",
    "Measurement",
    "MemoryAccount",
    "MemoryControlStore",
    "MemoryDestination",
    "MemoryDispatcher",
    "MemoryFanOut",
    "MemoryLeaseTable",
    "MemoryLog",
    "MemoryMetrics",
    "MemoryRecordWriter",
    "MemorySchemaRegistry",
    "MemorySightingStore",
    "MemorySnapshotStore",
    "MemoryStream",
    "MemoryStreams",
    "MemoryWorkerReports",
    "memory_ports",
]
