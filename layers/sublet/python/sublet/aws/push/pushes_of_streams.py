"""The Pushes port of an application of several streams: each stream has a fan-out consumer of its own, found by
name.
"""

from __future__ import annotations

import threading
from typing import Any

from sublet.aws.kinesis.fan_out_consumers import NamedConsumer
from sublet.aws.kinesis.several_streams import AwsStreams
from sublet.aws.push.push_requests import PushRequests
from sublet.aws.push.pushes import KinesisPushes
from sublet.ports import Clock, Log, Pushes
from sublet.protocol.stream_key import StreamKey
from sublet.settings import Settings


class PushesOfStreams:
    """The Pushes of each stream that is read. Thread-safe. All of them share two clients. `client`: see
    NamedConsumer.
    """

    def __init__(
        self, requests: PushRequests, client: Any, streams: AwsStreams, settings: Settings, clock: Clock, log: Log
    ) -> None:
        self._requests = requests
        self._client = client
        self._streams = streams
        self._settings = settings
        self._clock = clock
        self._log = log
        self._lock = threading.Lock()
        """Guards `_made`."""
        self._made: dict[StreamKey, Pushes] = {}

    def of(self, stream: StreamKey) -> Pushes:
        """Makes no call."""
        with self._lock:
            if stream not in self._made:
                self._made[stream] = self._new(stream)
            return self._made[stream]

    def _new(self, stream: StreamKey) -> Pushes:
        consumer = NamedConsumer(
            self._client,
            self._streams.arn(stream),
            self._settings.fan_out_name,
            self._clock,
            self._log,
            may_register=self._settings.register_fan_out,
        )
        return KinesisPushes(self._requests, self._streams.alone(stream), stream.stream, consumer)
