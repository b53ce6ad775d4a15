"""sublet: Kinesis consumers on short leases.

The names that handlers use: `Batch` and its `UserRecord`s, `Checkpoint`, and the errors. Importing this loads no AWS
library; each name loads its module at its first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.3.0"
"""The only place: the distribution's version is read from this line, and a Lambda layer has no other."""

_PUBLIC = {
    "sublet.decisions.status.fleet_status": "FleetStatus",
    "sublet.decisions.pull.pull_events": "Event EventKind",
    "sublet.decisions.status.work_distribution": "WorkDistribution",
    "sublet.errors": (
        "AwsNotConfigured BatchItemsFailed EventError HandlerContractBroken HandlerNotLoadable LeaseTableAccessDenied "
        "LeaseTableError LeaseTableNotFound MalformedCheckpoint PayloadNotEncodable PayloadUnreadable ProducerClosed "
        "ProducerFailed RecordRefused RecordTimedOut RecordsNotPut SchemaRegistryAccessDenied SchemaRegistryError "
        "SchemaRegistryUnavailable SettingsError SettingsInConflict StreamAccessDenied StreamError "
        "StreamNotAdopted StreamNotFound SubletError TransientError"
    ),
    "sublet.handler": "Batch Handler",
    "sublet.putting.encoder": "encoder",
    "sublet.putting.producer": "Producer",
    "sublet.protocol.checkpoint": "Checkpoint PendingCheckpoint",
    "sublet.protocol.records": "StreamRecord UserRecord",
    "sublet.protocol.stream_info": "PutRecord StreamMode",
    "sublet.pull.consumer": "Consumer",
    "sublet.pull.record": "Record",
    "sublet.pull.streams": "Context Stream connect",
    "sublet.settings": (
        "Balance Checkpointing FailureDetails HandlerContract HashRangeFilter HotShardKeys KclFleet LogExceptions "
        "MetricsByShard MetricsExport MetricsLevel Mode Reading Settings StartKind StartPosition Tracing"
    ),
}
"""Every public name, by the module that it is loaded from."""

_MODULE_OF = {name: module for module, names in _PUBLIC.items() for name in names.split()}

__all__ = sorted(_MODULE_OF)  # noqa: PLE0605 -- made from the one list

if TYPE_CHECKING:  # type checkers cannot read the list: a test compares these lines with it
    from sublet.decisions.pull.pull_events import Event as Event
    from sublet.decisions.pull.pull_events import EventKind as EventKind
    from sublet.decisions.status.fleet_status import FleetStatus as FleetStatus
    from sublet.decisions.status.work_distribution import WorkDistribution as WorkDistribution
    from sublet.errors import AwsNotConfigured as AwsNotConfigured
    from sublet.errors import BatchItemsFailed as BatchItemsFailed
    from sublet.errors import EventError as EventError
    from sublet.errors import HandlerContractBroken as HandlerContractBroken
    from sublet.errors import HandlerNotLoadable as HandlerNotLoadable
    from sublet.errors import LeaseTableAccessDenied as LeaseTableAccessDenied
    from sublet.errors import LeaseTableError as LeaseTableError
    from sublet.errors import LeaseTableNotFound as LeaseTableNotFound
    from sublet.errors import MalformedCheckpoint as MalformedCheckpoint
    from sublet.errors import PayloadNotEncodable as PayloadNotEncodable
    from sublet.errors import PayloadUnreadable as PayloadUnreadable
    from sublet.errors import ProducerClosed as ProducerClosed
    from sublet.errors import ProducerFailed as ProducerFailed
    from sublet.errors import RecordRefused as RecordRefused
    from sublet.errors import RecordsNotPut as RecordsNotPut
    from sublet.errors import RecordTimedOut as RecordTimedOut
    from sublet.errors import SchemaRegistryAccessDenied as SchemaRegistryAccessDenied
    from sublet.errors import SchemaRegistryError as SchemaRegistryError
    from sublet.errors import SchemaRegistryUnavailable as SchemaRegistryUnavailable
    from sublet.errors import SettingsError as SettingsError
    from sublet.errors import SettingsInConflict as SettingsInConflict
    from sublet.errors import StreamAccessDenied as StreamAccessDenied
    from sublet.errors import StreamError as StreamError
    from sublet.errors import StreamNotAdopted as StreamNotAdopted
    from sublet.errors import StreamNotFound as StreamNotFound
    from sublet.errors import SubletError as SubletError
    from sublet.errors import TransientError as TransientError
    from sublet.handler import Batch as Batch
    from sublet.handler import Handler as Handler
    from sublet.protocol.checkpoint import Checkpoint as Checkpoint
    from sublet.protocol.checkpoint import PendingCheckpoint as PendingCheckpoint
    from sublet.protocol.records import StreamRecord as StreamRecord
    from sublet.protocol.records import UserRecord as UserRecord
    from sublet.protocol.stream_info import PutRecord as PutRecord
    from sublet.protocol.stream_info import StreamMode as StreamMode
    from sublet.pull.consumer import Consumer as Consumer
    from sublet.pull.record import Record as Record
    from sublet.pull.streams import Context as Context
    from sublet.pull.streams import Stream as Stream
    from sublet.pull.streams import connect as connect
    from sublet.putting.encoder import encoder as encoder
    from sublet.putting.producer import Producer as Producer
    from sublet.settings import Balance as Balance
    from sublet.settings import Checkpointing as Checkpointing
    from sublet.settings import FailureDetails as FailureDetails
    from sublet.settings import HandlerContract as HandlerContract
    from sublet.settings import HashRangeFilter as HashRangeFilter
    from sublet.settings import HotShardKeys as HotShardKeys
    from sublet.settings import KclFleet as KclFleet
    from sublet.settings import LogExceptions as LogExceptions
    from sublet.settings import MetricsByShard as MetricsByShard
    from sublet.settings import MetricsExport as MetricsExport
    from sublet.settings import MetricsLevel as MetricsLevel
    from sublet.settings import Mode as Mode
    from sublet.settings import Reading as Reading
    from sublet.settings import Settings as Settings
    from sublet.settings import StartKind as StartKind
    from sublet.settings import StartPosition as StartPosition
    from sublet.settings import Tracing as Tracing
else:  # otherwise type checkers would accept any name

    def __getattr__(name: str) -> object:
        """Loads a name at its first use (PEP 562)."""
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
        return value


def __dir__() -> list[str]:
    """The public names for completion, loaded or not."""
    return [*__all__, "__version__"]
