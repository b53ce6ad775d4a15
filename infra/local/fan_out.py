"""Lets tests change the embedded AWS's SubscribeToShard: how long things take, and what goes wrong.

By default it keeps the service's rules and times. kinesis/fan_out.cjs explains the knobs, and kinesis/faults.cjs the
faults.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from infra.local.embedded import EmbeddedAws

EVERY_CONSUMER = "*"

What = Literal[
    "refuse",
    "cut",
    "exception",
    "error",
    "end",
    "silence",
    "delay",
    "repeat",
    "no_initial",
    "damage",
    "unchunked",
    "null_end",
    "no_children",
]


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that occurs once, in the consumer's next subscription, or in its next one to `shard_id`.

    at       how many events come before the fault
    code     the error code of a refusal, an exception or an error
    lasting  how long a delay or a silence lasts; without it, a silence lasts as long as the subscription
    """

    what: What
    at: int = 0
    code: str = "InternalFailureException"
    lasting: timedelta | None = None
    shard_id: str | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A call to SubscribeToShard: its shard, the position that it asked for, and `subscribed` or the refusal's code."""

    shard_id: str
    position: Mapping[str, Any]
    answer: str


@dataclass(frozen=True, slots=True)
class FanOut:
    """The subscriptions of one consumer of the embedded AWS, or of every consumer."""

    aws: EmbeddedAws
    consumer_arn: str = EVERY_CONSUMER

    def takes(
        self,
        *,
        lasts: timedelta | None = None,
        again_after: timedelta | None = None,
        quiet_event_every: timedelta | None = None,
        bytes_a_second: int | None = None,
    ) -> None:
        """Changes how long a subscription lasts (5 minutes), how soon the same consumer may take over (5 seconds), how
        often an empty event comes (5 seconds), and how fast records come at most (2 MiB a second)."""
        times = {"lasts": lasts, "againAfter": again_after, "quietEventEvery": quiet_event_every}
        knobs: dict[str, float] = {
            name: each / timedelta(milliseconds=1) for name, each in times.items() if each is not None
        }
        if bytes_a_second is not None:
            knobs["bytesASecond"] = bytes_a_second
        self._control({"knobs": knobs})

    def plant(self, *faults: Fault) -> None:
        """Adds faults, which occur in this order."""
        self._control({"faults": [_planned(fault) for fault in faults]})

    def calls(self) -> Sequence[Call]:
        """The calls so far, the last thousand of all consumers."""
        return [
            Call(call["shard"], call["position"], call.get("answer", "not answered"))
            for call in self._control({})["calls"]
        ]

    def _control(self, content: Mapping[str, object]) -> Any:
        body = json.dumps({"consumer": self.consumer_arn, **content}).encode()
        environment = self.aws.environment
        proof = hmac.new(environment["AWS_SECRET_ACCESS_KEY"].encode(), body, hashlib.sha256).hexdigest()
        request = urllib.request.Request(  # noqa: S310 -- on loopback
            f"{environment['AWS_ENDPOINT_URL_KINESIS']}/_sublet/fan-out",
            body,
            {"x-sublet-door": proof, "content-type": "application/json"},
        )
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10) as reply:
            return json.load(reply)


def _planned(fault: Fault) -> dict[str, object]:
    asked = {"do": fault.what, "at": fault.at, "code": fault.code, "shard": fault.shard_id}
    lasting = fault.lasting / timedelta(milliseconds=1) if fault.lasting is not None else None
    return {name: value for name, value in {**asked, "ms": lasting}.items() if value is not None}
