"""Names the hot shards in the log, so that the alarm HotShard and the dashboard lead to them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from sublet.decisions.load.busy_shards import busy_shards
from sublet.ports import Ports
from sublet.protocol.lease import Lease
from sublet.protocol.stream_key import own_id, stream_key_of
from sublet.settings import Settings

SAID_EVERY = timedelta(minutes=5)
"""How often a line is logged: when the alarm fires, there is a line of the last minutes."""


@dataclass(slots=True)
class BusyShardLog:
    """The log of one process."""

    _said_at: datetime | None = None

    def say(self, leases: Iterable[Lease], settings: Settings, ports: Ports) -> None:
        now = ports.clock.now()
        if self._said_at is not None and abs(now - self._said_at) < SAID_EVERY:
            return
        for busy in busy_shards(leases, now):
            self._said_at = now
            ports.log.warning(
                "a shard is hot",
                shard_id=busy.lease_key,
                bytes_per_second=busy.bytes_per_second,
                times_the_average=busy.times,
                share_of_quota=busy.share,
                command=_command(busy.lease_key, settings),
            )


def _command(lease_key: str, settings: Settings) -> str:
    """The command that shows why the shard is hot."""
    key = stream_key_of(lease_key)
    stream = settings.stream if key is None else key.stream
    return f"sublet hot --application {settings.application} --stream {stream} --shard {own_id(lease_key)}"
