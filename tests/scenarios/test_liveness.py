"""Decides which leases have lost their owner. `scans` in given: each tick's scan, `at` seconds after the first."""

from datetime import timedelta

from sublet.decisions.manager.liveness import Sighting, idle_time, is_expired, is_very_old, observe

from tests.scenarios.story import NOW, Story, leases

FAILOVER_TIME = timedelta(seconds=30)


def test_liveness(story: Story) -> None:
    seen: dict[str, Sighting] = {}
    decided: dict[str, object] = {}
    for scan in story.given["scans"]:
        now = NOW + timedelta(seconds=scan["at"])
        scanned = leases(scan)
        seen = dict(observe(seen, scanned, now))
        decided = {}
        for lease in scanned:
            idle = idle_time(lease, seen, now)
            decided[lease.lease_key] = {
                "idle": "for ever" if idle == timedelta.max else idle.total_seconds(),
                "expired": is_expired(lease, seen, now, FAILOVER_TIME),
                "very_old": is_very_old(lease, seen, now, FAILOVER_TIME),
            }
    story.check({"leases": decided, "sightings": sorted(seen)})
