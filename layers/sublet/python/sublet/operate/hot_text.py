"""Describes a hot shard, in a terminal, as JSON and on a page."""

from __future__ import annotations

from sublet.decisions.load.sketch import PeakSecond
from sublet.operate.rules.hot_shards import HotShard, KeyShare
from sublet.operate.shown import time_text


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
