"""Looks at an application's hot shards, and carries out splits and merges once an operator has seen the plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from sublet.decisions.load.resharding import Reshard
from sublet.decisions.load.sketch import PeakSecond, ShardSketch
from sublet.decisions.load.sketch_places import fresh
from sublet.decisions.status.fleet_status import FleetFindings, fleet_status
from sublet.decisions.status.shard_status import ShardStatus
from sublet.errors import LeaseTableError, StreamError
from sublet.operate.formatting import time_text
from sublet.operate.rules.hot_shards import HotShard, KeyShare, StreamLook, hot_shards
from sublet.ports import Ports
from sublet.ports.account import Account
from sublet.protocol.stream_key import own_id, shard_alone, stream_key_of
from sublet.settings import Settings

ACTIVE = "ACTIVE"
BETWEEN_LOOKS, WAITED_AT_MOST = timedelta(seconds=2), timedelta(minutes=5)
"""How long to wait for one split or merge. A stream takes one at a time, and is UPDATING for about half a minute after
each.
"""


def stored_sketches(ports: Ports) -> Mapping[str, ShardSketch]:
    """Returns the sketches by shard id. Raises what LeaseTable raises. An application of KCL alone has no table for
    them.
    """
    return {} if ports.sketches is None else fresh(ports.sketches.sketches(), ports.clock.now())


def readable_sketches(ports: Ports) -> Mapping[str, ShardSketch]:
    """Returns no sketches if the sightings table does not exist, or may not be read."""
    try:
        return stored_sketches(ports)
    except LeaseTableError:
        return {}


def look(
    settings: Settings, ports: Ports, account: Account, sketches: Mapping[str, ShardSketch]
) -> tuple[HotShard, ...]:
    """Returns every open shard's verdict, the hottest first, under the shard's own id, as in AWS' commands. Leaves out
    leases and sketches of the application's other streams.
    """
    stream = settings.stream
    shards = [shard for shard in _standing(settings, ports) if _is_of(stream, shard.shard_id)]
    return hot_shards(
        StreamLook(
            account.info(settings.stream_arn or stream).mode,
            ports.stream.describe().distribution,
            tuple(map(shard_alone, ports.stream.list_shards())),
            tuple(replace(shard, shard_id=own_id(shard.shard_id)) for shard in shards),
            {own_id(name): sketch for name, sketch in sketches.items() if _is_of(stream, name)},
        )
    )


def _standing(settings: Settings, ports: Ports) -> Sequence[ShardStatus]:
    try:
        known = FleetFindings(ports.sightings.load().sightings)
    except LeaseTableError:  # an application of KCL alone has no such table
        known = FleetFindings()
    return fleet_status(ports.table.scan(), ports.clock.now(), settings, known).shards


def _is_of(stream: str, shard: str) -> bool:
    key = stream_key_of(shard)
    return key is None or key.stream == stream


def reshard(stream: str, changes: Sequence[Reshard], account: Account) -> Iterator[Reshard]:
    """Carries the changes out, one after the other; yields each when the stream is active again."""
    for change in changes:
        account.change(stream, change)
        _wait_until_active(stream, account)
        yield change


def _wait_until_active(stream: str, account: Account) -> None:
    pause, since = account.tasks.signal(), account.clock.steady()
    while account.info(stream).status != ACTIVE:
        if account.clock.steady() - since > WAITED_AT_MOST:
            raise StreamError(f"stream {stream} is still not ACTIVE after {WAITED_AT_MOST}; look at it, and go on then")
        pause.wait(BETWEEN_LOOKS)


def peak_text(peak: PeakSecond) -> str:
    return f"{peak.bytes / 2**20:.2f} of 1 MiB, {peak.records:,} of 1,000 records, at {time_text(peak.at)}"


def key_text(key: KeyShare) -> str:
    """Returns the key's name, or its MD5."""
    return f"MD5 {key.key_hash:032x}" if key.name is None else key.name


def peak_json(peak: PeakSecond) -> dict[str, object]:
    return {"at": peak.at.isoformat(), "bytes": peak.bytes, "records": peak.records}


def key_json(key: KeyShare) -> dict[str, object]:
    return {"md5": f"{key.key_hash:032x}", "name": key.name, "at_least": key.at_least, "at_most": key.at_most}


def price_text(shard: HotShard) -> str:
    """Describes what the change costs that the verdict recommends."""
    return f"{'-' if shard.per_month < 0 else '+'}${abs(shard.per_month):.2f} a month"
