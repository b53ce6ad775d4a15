"""What the engine needs from the world, in domain words. Implemented twice: aws/ (boto3), testing/memory/ (no network).

Each docstring is the contract; tests/contract checks every implementation against it. No boto3 type crosses these
interfaces. Expected outcomes are values (a refused write, a throttled poll); possible errors are named and come from
`sublet.errors`. Implementations have already retried whatever is transient, except where the contract says so.
"""

from sublet.payloads.schema_registry import RegisteredSchema, SchemaRegistry
from sublet.ports.fleet import Dispatcher, WorkerReports
from sublet.ports.lease_table import Applied, LeaseTable, Refused
from sublet.ports.machine import Clock, Signal, Task, Tasks
from sublet.ports.ports import Ports
from sublet.ports.set_aside import (
    GIVEN_FOR,
    HELD_EVERY,
    FailureDestination,
    HeldBack,
    KeptBatch,
    RemovalResult,
    SetAsideStore,
    StoreCounts,
)
from sublet.ports.stores import ControlStore, Remembered, SightingStore, SketchStore, SnapshotStore
from sublet.ports.stream import (
    PollRefusal,
    Pushed,
    Pushes,
    PushReader,
    RecordWriter,
    Refusal,
    ShardReader,
    ShardSubscription,
    Stream,
    Streams,
    Unanswered,
)
from sublet.ports.telemetry import CallSpan, Log, Metrics, Traces

__all__ = [
    "GIVEN_FOR",
    "HELD_EVERY",
    "Applied",
    "CallSpan",
    "Clock",
    "ControlStore",
    "Dispatcher",
    "FailureDestination",
    "HeldBack",
    "KeptBatch",
    "LeaseTable",
    "Log",
    "Metrics",
    "PollRefusal",
    "Ports",
    "PushReader",
    "Pushed",
    "Pushes",
    "RecordWriter",
    "Refusal",
    "Refused",
    "RegisteredSchema",
    "Remembered",
    "RemovalResult",
    "SchemaRegistry",
    "SetAsideStore",
    "ShardReader",
    "ShardSubscription",
    "SightingStore",
    "Signal",
    "SketchStore",
    "SnapshotStore",
    "StoreCounts",
    "Stream",
    "Streams",
    "Task",
    "Tasks",
    "Traces",
    "Unanswered",
    "WorkerReports",
]
