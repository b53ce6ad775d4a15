"""sublet: Kinesis consumers on short leases.

What a handler meets: `Batch` and its `UserRecord`s, `Checkpoint`, and the errors. Importing this loads no AWS library.
"""

from sublet.errors import (
    EventError,
    HandlerNotLoadable,
    LeaseTableError,
    MalformedCheckpoint,
    SettingsError,
    StreamError,
    SubletError,
)
from sublet.ports import Batch
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.records import StreamRecord, UserRecord
from sublet.settings import HashRangeFilter, Mode, Settings, StartKind, StartPosition

__all__ = [
    "Batch",
    "Checkpoint",
    "EventError",
    "HandlerNotLoadable",
    "HashRangeFilter",
    "LeaseTableError",
    "MalformedCheckpoint",
    "Mode",
    "Settings",
    "SettingsError",
    "StartKind",
    "StartPosition",
    "StreamError",
    "StreamRecord",
    "SubletError",
    "UserRecord",
]
