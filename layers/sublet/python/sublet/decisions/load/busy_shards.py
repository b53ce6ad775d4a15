"""Which shards are hot: they get far more than the others, or most of what a shard can take. The alarm HotShard is
about them.

CloudWatch's alarm knows that there is a hot shard, but not which. The lease manager sees each shard's rate in its row.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct

from sublet.decisions.load.shard_load import HOT_ON_AVERAGE, ReadingRate, reading_rate, share_of_quota
from sublet.protocol.lease import Lease

FAR_MORE = 2.0
"""As a multiple of the average. By default the alarm fires at twice this multiple."""

NOT_IDLE = 100_000
"""Bytes a second. If even the busiest shard gets less, its multiple of the average means nothing."""

NAMED = 5


class BusyShard(Struct, frozen=True):
    """times  the average of the shards whose rate is known
    share  of a shard's quota, on average
    """

    lease_key: str
    bytes_per_second: int
    times: float
    share: float


def busy_shards(leases: Iterable[Lease], now: datetime) -> tuple[BusyShard, ...]:
    """Returns the hot shards, the busiest first, at most NAMED of them."""
    rates = {
        lease.lease_key: rate for lease in leases if (rate := reading_rate(lease, now, is_owner_gone=False)) is not None
    }
    average = sum(rate.bytes_per_second for rate in rates.values()) / max(1, len(rates))
    found = [busy for key, rate in rates.items() if _is_hot(busy := _busy(key, rate, average))]
    return tuple(sorted(found, key=lambda busy: (-busy.bytes_per_second, busy.lease_key))[:NAMED])


def _busy(lease_key: str, rate: ReadingRate, average: float) -> BusyShard:
    times = rate.bytes_per_second / average if average else 0.0
    share = share_of_quota(rate.bytes_per_second, rate.records_per_second or 0)
    return BusyShard(lease_key, round(rate.bytes_per_second), round(times, 1), round(share, 2))


def _is_hot(busy: BusyShard) -> bool:
    gets_far_more = busy.bytes_per_second >= NOT_IDLE and busy.times >= FAR_MORE
    nears_its_quota = busy.share >= HOT_ON_AVERAGE
    return gets_far_more or nears_its_quota
