"""The ports without a network: for tests, simulations and users' own tests.

They pass the same contract suite as `sublet.aws`.
"""

from sublet.memory.account import MemoryAccount
from sublet.memory.clock import FakeClock
from sublet.memory.control import MemoryControlStore
from sublet.memory.dispatcher import MemoryDispatcher
from sublet.memory.failure_destination import MemoryDestination
from sublet.memory.lease_table import MemoryLeaseTable
from sublet.memory.log import LogLine, MemoryLog
from sublet.memory.metrics import Measurement, MemoryMetrics
from sublet.memory.ports import memory_ports
from sublet.memory.pushes import MemoryFanOut
from sublet.memory.record_writer import MemoryRecordWriter
from sublet.memory.sighting_store import MemorySightingStore
from sublet.memory.snapshots import MemorySnapshotStore
from sublet.memory.stream import MemoryStream
from sublet.memory.streams import MemoryStreams
from sublet.memory.worker_reports import MemoryWorkerReports

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
    "MemorySightingStore",
    "MemorySnapshotStore",
    "MemoryStream",
    "MemoryStreams",
    "MemoryWorkerReports",
    "memory_ports",
]
