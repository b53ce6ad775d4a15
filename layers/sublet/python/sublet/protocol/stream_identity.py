"""What tells a stream from another one of the same name, such as itself after it was deleted and created again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class StreamIdentity:
    """`created_at` is Kinesis' own, UTC-aware, to the millisecond at best."""

    arn: str
    created_at: datetime
