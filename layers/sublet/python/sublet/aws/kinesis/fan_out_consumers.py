"""The fan-out consumer of a stream that has a given name: finds it, and registers it if it is missing."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

from botocore.exceptions import ClientError

from sublet.aws.faults import ACCESS_DENIED, code_of
from sublet.aws.kinesis.errors import NOT_FOUND, named_stream_errors
from sublet.decisions.session.fan_out_consumer import UNSEEN, ConsumerLookup, ConsumerStanding, is_to_register, search
from sublet.decisions.session.push import PushEnd
from sublet.errors import StreamError, TransientError
from sublet.ports import Clock, Log, Signal, Unanswered

LOOKED_EVERY = timedelta(seconds=1)
LOOKS_MAX = 60
"""Registering takes some seconds. Kinesis does not say how many at most."""

CONSUMERS_MAX = 20
"""A stream may have this many consumers; some accounts may have 50. Kinesis gives the same code where it already
registers five consumers.
"""

_LIMIT, _IN_USE = "LimitExceededException", "ResourceInUseException"
_STANDINGS = {"ACTIVE": ConsumerStanding.ACTIVE, "CREATING": ConsumerStanding.CREATING}


_WITHOUT = {
    ConsumerStanding.MISSING: "the stream has no fan-out consumer of this name",
    ConsumerStanding.NO_ROOM: "the stream has as many fan-out consumers as it may have",
}


class ConsumerDescription(NamedTuple):
    """The consumer as Kinesis describes it. `arn`: None without one."""

    standing: ConsumerStanding
    arn: str | None = None


@dataclass(frozen=True, slots=True)
class FanOutConsumer:
    """A consumer that is registered and active. `is_new`: by this call."""

    arn: str
    is_new: bool


def registered(client: Any, stream_arn: str, name: str, stop: Signal) -> FanOutConsumer | None:
    """Finds or registers the consumer, and waits until it is active. None if the stream has as many consumers as it may
    have (20, or 50 in some accounts). Raises what Stream raises.
    """
    is_new = False
    with named_stream_errors(stream_arn.rpartition("/")[2]):
        found = look(client, stream_arn, name)
        for _ in range(LOOKS_MAX):
            if found.standing in (ConsumerStanding.MISSING, ConsumerStanding.BUSY) and not is_new:
                found = register(client, stream_arn, name)
                is_new = found.arn is not None
            if found.standing is ConsumerStanding.NO_ROOM:
                return None
            if found.standing is ConsumerStanding.ACTIVE and found.arn is not None:
                return FanOutConsumer(found.arn, is_new)
            if stop.wait(LOOKED_EVERY):
                break
            found = look(client, stream_arn, name)
    raise StreamError(f"the consumer {name} of {stream_arn} does not become active; look at it, and try again")


def look(client: Any, stream_arn: str, name: str) -> ConsumerDescription:
    """Asks Kinesis about the consumer of this name. It is missing if the stream is gone."""
    try:
        reply = client.describe_stream_consumer(StreamARN=stream_arn, ConsumerName=name)
    except ClientError as error:
        if code_of(error) == NOT_FOUND:
            return ConsumerDescription(ConsumerStanding.MISSING)
        raise
    described = reply["ConsumerDescription"]
    standing = _STANDINGS.get(described["ConsumerStatus"], ConsumerStanding.MISSING)
    return ConsumerDescription(standing, described["ConsumerARN"] if standing is not ConsumerStanding.MISSING else None)


def register(client: Any, stream_arn: str, name: str) -> ConsumerDescription:
    """Registers the consumer. The result has an ARN only if this call registered it."""
    try:
        reply = client.register_stream_consumer(StreamARN=stream_arn, ConsumerName=name)
    except ClientError as error:
        if code_of(error) == _IN_USE:  # another process registers it now, or it is still being deleted
            return ConsumerDescription(ConsumerStanding.BUSY)
        if code_of(error) != _LIMIT:
            raise
        return ConsumerDescription(ConsumerStanding.BUSY if _has_room(client, stream_arn) else ConsumerStanding.NO_ROOM)
    return ConsumerDescription(ConsumerStanding.CREATING, reply["Consumer"]["ConsumerARN"])


def _has_room(client: Any, stream_arn: str) -> bool:
    """Whether the stream may have another consumer. False too if the role may not list the stream's consumers."""
    try:
        return len(client.list_stream_consumers(StreamARN=stream_arn)["Consumers"]) < CONSUMERS_MAX
    except ClientError as error:
        if code_of(error) in ACCESS_DENIED:
            return False
        raise


class StreamConsumer(Protocol):
    """The registered consumer that subscribes to a stream's shards. Thread-safe."""

    def arn(self) -> str | PushEnd | Unanswered:
        """The consumer's ARN. Otherwise NO_CONSUMER if there is none, so the caller polls instead; IN_USE if it is
        being created; Unanswered if Kinesis does not say. Raises errors that no retry removes.
        """

    def lost(self, arn: str) -> bool:
        """Notes that there is no longer a consumer with this ARN. Returns whether to ask for the ARN again."""


@dataclass(frozen=True, slots=True)
class StatedConsumer:
    """A StreamConsumer that is given by its ARN."""

    stated: str

    def arn(self) -> str:
        return self.stated

    def lost(self, arn: str) -> bool:  # noqa: ARG002 - there is no other
        return False


class NamedConsumer:
    """A StreamConsumer that is given by its name, for all the process' readers of the stream."""

    def __init__(self, client: Any, stream_arn: str, name: str, clock: Clock, log: Log, *, may_register: bool) -> None:
        self._client = client
        self._stream_arn = stream_arn
        self._name = name
        self._clock = clock
        self._log = log
        self._may_register = may_register
        self._known = UNSEEN
        self._refused_at: datetime | None = None
        self._problem = ""
        """Why the last look was in vain."""
        self._logged: ConsumerStanding | None = None
        self._lock = threading.Lock()
        """A reader holds this during a look, so that the readers of many shards make one."""

    def arn(self) -> str | PushEnd | Unanswered:
        """A look in vain, which may last for half a minute, counts for all that have waited for it."""
        asked_at = self._clock.steady()
        with self._lock:
            if self._refused_at is not None and self._refused_at >= asked_at:
                return Unanswered(self._problem)
            if search(self._known, self._clock.steady()) is ConsumerLookup.LOOK:
                try:
                    self._look()
                except TransientError as problem:
                    self._refused_at, self._problem = self._clock.steady(), str(problem)
                    return Unanswered(self._problem)
            known = self._known
            if search(known, self._clock.steady()) is ConsumerLookup.WAIT:
                return PushEnd.IN_USE
            return known.arn if known.standing is ConsumerStanding.ACTIVE and known.arn else PushEnd.NO_CONSUMER

    def lost(self, arn: str) -> bool:
        with self._lock:
            self._known = self._known.lost(arn)
        return True

    def _look(self) -> None:
        stream = self._stream_arn.rpartition("/")[2]
        with named_stream_errors(stream):
            found = look(self._client, self._stream_arn, self._name)
            if is_to_register(found.standing, self._known, may_register=self._may_register):
                found = self._register(stream)
        if found.standing is not self._logged:
            self._logged = found.standing
            self._log_standing(found.standing, stream)
        self._known = self._known.seen(found.standing, found.arn, self._clock.steady())

    def _register(self, stream: str) -> ConsumerDescription:
        found = register(self._client, self._stream_arn, self._name)
        if found.arn is not None:
            self._log.info(
                "registered a fan-out consumer; it is charged for, by the hour and shard, until you deregister it",
                stream=stream,
                consumer=self._name,
                deregister=f"aws kinesis deregister-stream-consumer --consumer-arn {found.arn}",
            )
        return found

    def _log_standing(self, standing: ConsumerStanding, stream: str) -> None:
        if standing in _WITHOUT:
            self._log.warning(f"{_WITHOUT[standing]}: it is polled instead", stream=stream, consumer=self._name)
