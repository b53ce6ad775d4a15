"""Decides which leases to delete."""

from sublet.decisions.manager.lease_cleanup import plan_lease_cleanup

from tests.scenarios.story import Story, leases, shards


def test_lease_cleanup(story: Story) -> None:
    given = story.given
    deletions = plan_lease_cleanup(leases(given), shards(given), given.get("malformed", []))
    story.check({deletion.lease.lease_key: deletion.why.value for deletion in deletions})
