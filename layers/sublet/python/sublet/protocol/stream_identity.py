"""Tells a stream from another one of the same name, such as itself after it was deleted and created again."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from sublet.errors import SettingsError


class StreamIdentity(Struct, frozen=True):
    """`created_at` is Kinesis' own, UTC-aware, to the millisecond at best."""

    arn: str
    created_at: datetime

    def is_same_as(self, other: StreamIdentity) -> bool:
        """Times that differ by less than a second are equal: Kinesis rounds."""
        same_moment = abs(self.created_at - other.created_at) < timedelta(seconds=1)
        return self.arn == other.arn and same_moment

    def __str__(self) -> str:
        return f"{self.arn}, created {self.created_at.isoformat()}"


class StreamArn(Struct, frozen=True):
    """The parts of arn:aws:kinesis:eu-west-1:123456789012:stream/orders."""

    partition: str
    region: str
    account: str
    stream: str

    @classmethod
    def parse(cls, arn: str) -> StreamArn:
        """Takes a valid stream ARN apart; the settings check whether it is one."""
        _, partition, _, region, account, resource = (arn + ":::::").split(":", maxsplit=5)
        return cls(partition, region, account, resource.rstrip(":").partition("/")[2])


def stream_settings(stream: str) -> dict[str, str]:
    """The settings that select a stream, by its name or its ARN. Raises SettingsError for anything else."""
    if not isinstance(stream, str):
        raise SettingsError("stream", stream, "a stream's name, or its ARN, as text")
    if not stream:
        raise SettingsError("stream", stream, "a stream's name, 1 to 128 of A-Z a-z 0-9 _ . -, or its ARN")
    if stream.startswith("arn:"):
        name = StreamArn.parse(stream).stream
        if not name:
            raise SettingsError("stream", stream, "the ARN of a stream: arn:aws:kinesis:REGION:ACCOUNT:stream/NAME")
        return {"stream": name, "stream_arn": stream}
    return {"stream": stream}
