"""Finds hash keys that no lease covers."""

from sublet.decisions.manager.hash_range_audit import holes

from tests.scenarios.story import Story, hash_keys_written, leases, shards


def test_hash_range_audit(story: Story) -> None:
    given = story.given
    story.check([hash_keys_written(hole) for hole in holes(leases(given), shards(given))])
