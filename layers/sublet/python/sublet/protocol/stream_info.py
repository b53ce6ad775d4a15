"""A stream and an account's streams, as Kinesis describes them."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

from msgspec import Struct

from sublet.protocol.stream_identity import StreamIdentity


class StreamMode(StrEnum):
    """Kinesis' StreamMode."""

    PROVISIONED = "PROVISIONED"
    """So many shards, until somebody changes that."""
    ON_DEMAND = "ON_DEMAND"
    """Kinesis splits and merges by itself."""


ACTIVE = "ACTIVE"
"""Kinesis' StreamStatus of a stream that may be changed."""


class StreamInfo(Struct, frozen=True):
    """`open_shards` take records; closed ones may still hold some. `key`: the KMS key that its records are encrypted with."""

    name: str
    identity: StreamIdentity
    status: str
    mode: StreamMode
    open_shards: int
    retention: timedelta
    key: str | None = None


class AccountInfo(Struct, frozen=True):
    """What the account's streams in this region use, and may: shards of provisioned streams, and on-demand streams."""

    open_shards: int
    shard_limit: int
    on_demand_streams: int
    on_demand_stream_limit: int


class PutRecord(Struct, frozen=True):
    """Where a record was put."""

    shard_id: str
    sequence_number: str
