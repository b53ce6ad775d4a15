"""The state of an application as a whole, as JSON. In given:

leases      as everywhere, and `reported`: [seconds ago, seconds that the next record had waited], with a third number
            the bytes a second; and `failing`: [error, attempt, seconds ago]
malformed   lease keys of rows that cannot be read
paused      {"lease key": for how many seconds}
retention   in hours
settings    as in a deployment's environment

Expected: the totals, and of each shard what is not as in any other story.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from sublet.decisions.status.fleet_status import FleetFindings, fleet_status
from sublet.operate.rules.fleet_json import fleet_json
from sublet.protocol.control import Order, Pause
from sublet.protocol.handler_failure import HandlerFailure
from sublet.protocol.lag_report import LagReport
from sublet.protocol.lease import Lease, LeaseScan, MalformedRow
from sublet.protocol.lease_row import decode_row, encode_row

from tests.scenarios.story import NOW, Story, leases, settings, sightings

SHOWN = ("word", "lag", "lost", "owner", "owner_is_gone", "group", "kbps", "waits_for", "attempts", "failing")


def test_fleet_status(story: Story) -> None:
    given = story.given
    reported = {key: fields.pop("reported", None) for key, fields in given["leases"].items()}
    failing = {key: fields.pop("failing", None) for key, fields in given["leases"].items()}
    read = tuple(
        with_failure(with_report(lease, reported[lease.lease_key]), failing[lease.lease_key]) for lease in leases(given)
    )
    malformed = tuple(MalformedRow(key, "half a row") for key in given.get("malformed", ()))
    paused = {
        key: Pause(Order.PAUSE, NOW - timedelta(seconds=ago), "an operator")
        for key, ago in given.get("paused", {}).items()
    }
    retention = timedelta(hours=given["retention"]) if "retention" in given else None
    known = FleetFindings(sightings(given), retention=retention, paused=paused)
    found: dict[str, Any] = dict(fleet_json(fleet_status(LeaseScan(read, malformed), NOW, settings(given), known)))
    assert found.pop("words") == found["statuses"], "its name in 0.2"
    shards = {each["shard"]: {name: each[name] for name in SHOWN if each[name]} for each in found["shards"]}
    totals = {name: value for name, value in found.items() if name not in ("at", "shards") and value}
    story.check({**totals, "shards": shards})


def with_failure(lease: Lease, failing: tuple[str, int, float] | None) -> Lease:
    """As a reader of its row finds it."""
    if failing is None:
        return lease
    error, attempt, ago = failing
    said = HandlerFailure(error, attempt, NOW - timedelta(seconds=ago))
    read = decode_row(encode_row(replace(lease, failing=said)))
    assert isinstance(read, Lease)
    return read


def with_report(lease: Lease, reported: list[float] | None) -> Lease:
    if reported is None:
        return lease
    ago, waited, *size = reported
    at = NOW - timedelta(seconds=ago)
    return replace(
        lease,
        lag_report=LagReport(at, timedelta(seconds=waited), bytes_per_second=int(size[0]) if size else None),
    )
