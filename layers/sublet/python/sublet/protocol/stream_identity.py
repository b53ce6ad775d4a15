"""What tells a stream from another one of the same name, such as itself after it was deleted and created again."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct


class StreamIdentity(Struct, frozen=True):
    """`created_at` is Kinesis' own, UTC-aware, to the millisecond at best."""

    arn: str
    created_at: datetime
