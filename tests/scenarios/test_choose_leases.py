"""Which leases to send workers for: cases of kcl-rust (calculate_acquire), of the Java KCL 2.x taker, and ours."""

from sublet.decisions.manager.choose_leases import choose_leases
from sublet.decisions.manager.fleet_kind import fleet_of

from tests.scenarios.story import NOW, InOrder, Story, leases, reports, settings, sightings


def test_choose_leases(story: Story) -> None:
    given = story.given
    chosen = choose_leases(
        leases(given),
        sightings(given),
        NOW,
        InOrder(),
        settings(given),
        given["worker_ids"],
        frozenset(given.get("recently_ended", [])),
        given.get("malformed", []),
        given.get("under_way", {}),
        fleet=fleet_of(reports(given), None, given["worker_ids"], NOW, settings(given)),
        paused=given.get("paused", []),
    )
    story.check([[choice.lease.lease_key, choice.worker_id, choice.why.value] for choice in chosen.choices])
