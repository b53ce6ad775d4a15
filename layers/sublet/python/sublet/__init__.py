"""sublet: Kinesis consumers on short leases.

What a handler meets: `Batch` and its `UserRecord`s, `Checkpoint`, and the errors. Importing this loads no AWS library, and a
module of its own only with the first use of a name.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sublet.errors import (
        EventError,
        HandlerNotLoadable,
        LeaseTableError,
        MalformedCheckpoint,
        SettingsError,
        StreamError,
        SubletError,
    )
    from sublet.handler import Batch, Handler
    from sublet.protocol.checkpoint import Checkpoint
    from sublet.protocol.records import StreamRecord, UserRecord
    from sublet.settings import HashRangeFilter, Mode, Settings, StartKind, StartPosition

__all__ = [
    "Batch",
    "Checkpoint",
    "EventError",
    "Handler",
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

_NAMES = {
    "sublet.errors": "EventError HandlerNotLoadable LeaseTableError MalformedCheckpoint SettingsError StreamError SubletError",
    "sublet.handler": "Batch Handler",
    "sublet.protocol.checkpoint": "Checkpoint",
    "sublet.protocol.records": "StreamRecord UserRecord",
    "sublet.settings": "HashRangeFilter Mode Settings StartKind StartPosition",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}

if not TYPE_CHECKING:  # or else type checkers would believe in every name

    def __getattr__(name: str) -> object:
        """A name's first use (PEP 562)."""
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
        return value
