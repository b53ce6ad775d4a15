"""FleetStatus as JSON, on which scripts may rely."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import timedelta

from sublet.decisions.status.shard_status import ShardStatus
from sublet.decisions.status.status_rules import Status, StatusReason
from sublet.operate.rules.fleet_json import fleet_json, shard_json
from sublet.protocol.lease import MalformedRow
from sublet.protocol.shard import FULL_RANGE

from tests.doubles.fleet import fleet_of, shard_status

MINUTE = timedelta(minutes=1)
OK = shard_status(0, Status.OK, StatusReason.NOTHING_WAITS, lag=timedelta(0), kbps=6.0)
BEHIND = shard_status(1, Status.BEHIND, StatusReason.LAG_NEVER_FELL, lag=MINUTE, hash_key_range=FULL_RANGE)


def test_totals_are_of_all_shards_even_if_only_some_are_listed() -> None:
    fleet = fleet_of(OK, BEHIND, malformed=(MalformedRow("x", "half a row"),), retention=60 * MINUTE)
    found = json.loads(json.dumps(fleet_json(fleet, [BEHIND])))
    assert [shard["shard"] for shard in found["shards"]] == ["shardId-000000000001"]
    assert found["statuses"] == found["words"] == {"BEHIND": 1, "OK": 1}
    assert (found["lag"], found["oldest_unhandled"]) == (60.0, "2026-11-22T07:59:00+00:00")
    assert (found["retention"], found["retention_left"]) == (3600.0, 3540.0)
    assert found["malformed"] == [{"row": "x", "problem": "half a row"}]
    assert [(worker["worker"], worker["leases"], worker["kbps"]) for worker in found["workers"]] == [
        ("orders-audit-lambda-0", 2, 6.0)
    ]


def test_each_field_of_a_shard_is_there() -> None:
    named = {"shard_id": "shard", "hash_key_range": "hash_keys"}
    known = {named.get(field.name, field.name) for field in fields(ShardStatus)}
    assert known | {"owner_is_gone", "stream", "word"} == shard_json(OK).keys()


def test_hash_keys_keep_all_of_their_digits() -> None:
    assert shard_json(BEHIND)["hash_keys"] == ["0", str(2**128 - 1)]


def test_fleet_json_has_no_retention_left_when_nothing_waits() -> None:
    found = fleet_json(fleet_of(OK, retention=60 * MINUTE))
    assert (found["lag"], found["oldest_unhandled"], found["retention_left"]) == (0.0, None, None)
