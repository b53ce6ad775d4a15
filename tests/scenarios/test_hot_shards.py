"""Why a shard is hot, and what helps. `traffic`: by shard, what comes each second, for a minute
(tests/doubles/traffic.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sublet.decisions.load.resharding import aws_command
from sublet.decisions.status.fleet_status import FleetFindings, fleet_status
from sublet.operate.rules.hot_shards import HotShard, StreamLook, hot_shards
from sublet.protocol.lease import LeaseScan
from sublet.protocol.stream_info import RecordDistribution, StreamMode

from tests.doubles.traffic import Traffic, sketch_of
from tests.scenarios.story import NOW, Story, leases, settings, shards, sightings


def test_hot_shards(story: Story) -> None:
    given = story.given
    listed = {shard.shard_id: shard for shard in shards(given)}
    sketches = {
        shard_id: sketch_of(
            shard_id,
            [Traffic(**each) for each in traffic],
            hash_key_range=listed[shard_id].hash_key_range,
            dropped=given.get("dropped", {}).get(shard_id, 0),
        )
        for shard_id, traffic in given.get("traffic", {}).items()
    }
    look = StreamLook(
        StreamMode(given.get("mode", "PROVISIONED")),
        RecordDistribution(given["distribution"]) if "distribution" in given else None,
        tuple(listed.values()),
        fleet_status(LeaseScan(tuple(leases(given))), NOW, settings(given), FleetFindings(sightings(given))).shards,
        sketches,
    )
    story.check([_written(judged) for judged in hot_shards(look)])


def _written(judged: HotShard) -> Mapping[str, Any]:
    found: dict[str, Any] = {
        "shard": judged.shard_id,
        "verdict": judged.verdict.value,
        "because": judged.because,
        "then": judged.then,
        "share": None if judged.share is None else round(judged.share, 2),
        "keys": [f"{key.name} {key.at_least:.2f} to {key.at_most:.2f}" for key in judged.keys[:2]],
        "command": None if judged.change is None else aws_command("orders", judged.change),
        "per_month": round(judged.per_month, 2),
    }
    return {name: value for name, value in found.items() if value not in (None, [], "", 0)}
