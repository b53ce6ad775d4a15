"""Registers a fan-out consumer for `sublet run --register`, and finds one of the same name that is there already."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from botocore.exceptions import ClientError

from sublet.aws.faults import code_of
from sublet.aws.kinesis_errors import NOT_FOUND, named_stream_errors
from sublet.errors import StreamError
from sublet.ports import Signal

LOOKED_EVERY = timedelta(seconds=1)
LOOKS_MAX = 60
"""Registering takes some seconds. Kinesis does not say how many at most."""

_ACTIVE, _CREATING = "ACTIVE", "CREATING"


@dataclass(frozen=True, slots=True)
class FanOutConsumer:
    """A consumer that is registered and active. `is_new`: by this call."""

    arn: str
    is_new: bool


def registered(client: Any, stream_arn: str, name: str, stop: Signal) -> FanOutConsumer | None:
    """None if the stream has as many consumers as it may have (20, or 50 in some accounts). Raises what Stream raises."""
    with named_stream_errors(stream_arn.rpartition("/")[2]):
        arn = _arn_of(client, stream_arn, name)
        is_new = arn is None
        if arn is None:
            try:
                reply = client.register_stream_consumer(StreamARN=stream_arn, ConsumerName=name)
                arn = reply["Consumer"]["ConsumerARN"]
            except ClientError as error:
                if code_of(error) == "LimitExceededException":
                    return None
                if code_of(error) != "ResourceInUseException":  # another process registers it now
                    raise
                arn, is_new = _arn_of(client, stream_arn, name), False
        if arn is not None and _is_active(client, arn, stop):
            return FanOutConsumer(arn, is_new)
    raise StreamError(
        f"the consumer {name} of {stream_arn} does not become active; look at it, and try again"
    )


def _arn_of(client: Any, stream_arn: str, name: str) -> str | None:
    try:
        reply = client.describe_stream_consumer(StreamARN=stream_arn, ConsumerName=name)
    except ClientError as error:
        if code_of(error) == NOT_FOUND:
            return None
        raise
    arn: str = reply["ConsumerDescription"]["ConsumerARN"]
    return arn


def _is_active(client: Any, arn: str, stop: Signal) -> bool:
    for _ in range(LOOKS_MAX):
        status = client.describe_stream_consumer(ConsumerARN=arn)["ConsumerDescription"]["ConsumerStatus"]
        if status != _CREATING:
            return bool(status == _ACTIVE)
        if stop.wait(LOOKED_EVERY):
            break
    return False
