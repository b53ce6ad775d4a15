"""The inputs of a kclpy record processor, in the shape of kclpy's messages; the package amazon_kclpy is not needed.

https://github.com/awslabs/amazon-kinesis-client-python, amazon_kclpy/messages.py
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from sublet.protocol.records import UserRecord


class KclpyCheckpoints(Protocol):
    """kclpy's checkpointer."""

    def checkpoint(self, sequence_number: str | None = None, sub_sequence_number: int | None = None) -> None: ...


@dataclass(frozen=True, slots=True)
class KclRecord:
    """A user record. `data` is base64 text, as MultiLangDaemon sends it; `binary_data` the bytes."""

    user_record: UserRecord

    @property
    def binary_data(self) -> bytes:
        return self.user_record.data

    @property
    def data(self) -> str:
        return b64encode(self.user_record.data).decode("ascii")

    @property
    def partition_key(self) -> str | None:
        return self.user_record.partition_key

    @property
    def sequence_number(self) -> str:
        return self.user_record.sequence_number

    @property
    def sub_sequence_number(self) -> int:
        return self.user_record.sub_sequence_number

    @property
    def timestamp_millis(self) -> int:
        return round(self.user_record.approximate_arrival_timestamp.timestamp() * 1000)

    @property
    def approximate_arrival_timestamp(self) -> datetime:
        """In the machine's time zone and without tzinfo, as in kclpy."""
        return datetime.fromtimestamp(self.timestamp_millis / 1000)  # noqa: DTZ006 - as kclpy's

    def get(self, field: str) -> Any:
        """Gets a field by MultiLangDaemon's name, as processors of version 1 mostly read a record."""
        return _FIELDS[field](self)

    def __getitem__(self, field: str) -> Any:
        return self.get(field)


_FIELDS: Mapping[str, Callable[[KclRecord], Any]] = {
    "action": lambda _: "record",
    "data": lambda record: record.data,
    "partitionKey": lambda record: record.partition_key,
    "sequenceNumber": lambda record: record.sequence_number,
    "subSequenceNumber": lambda record: record.sub_sequence_number,
    "approximateArrivalTimestamp": lambda record: record.timestamp_millis,
}


@dataclass(frozen=True, slots=True)
class InitializeInput:
    shard_id: str
    sequence_number: str
    sub_sequence_number: int
    action: str = "initialize"


@dataclass(frozen=True, slots=True)
class ProcessRecordsInput:
    """`is_redrive` is the batch's; kclpy does not have it."""

    records: Sequence[KclRecord]
    millis_behind_latest: int
    checkpointer: KclpyCheckpoints
    action: str = "processRecords"
    is_redrive: bool = False


@dataclass(frozen=True, slots=True)
class LeaseLostInput:
    action: str = "leaseLost"


@dataclass(frozen=True, slots=True)
class ShardEndedInput:
    checkpointer: KclpyCheckpoints
    action: str = "shardEnded"


@dataclass(frozen=True, slots=True)
class ShutdownRequestedInput:
    checkpointer: KclpyCheckpoints
    action: str = "shutdownRequested"


@dataclass(frozen=True, slots=True)
class ShutdownInput:
    """What a processor of version 2 gets when the lease is lost (ZOMBIE), or the shard has ended (TERMINATE)."""

    reason: str
    checkpointer: KclpyCheckpoints
    action: str = "shutdown"


ZOMBIE, TERMINATE = "ZOMBIE", "TERMINATE"
