"""Where two applications stand at the same shards."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sublet.decisions.session.handled_position import HandledPosition
from sublet.operate.rules.position_differences import PositionDifference, Standing, between, differences
from sublet.protocol.checkpoint import LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import Lease

NOW = datetime(2026, 11, 22, 8, tzinfo=UTC)
SECOND = timedelta(seconds=1)
NONE = timedelta(0)


def lease(shard: str, at: Checkpoint, *parents: str, start_at: datetime | None = None) -> Lease:
    return Lease(shard, at, parent_shard_ids=frozenset(parents), start_at=start_at)


@pytest.mark.parametrize(
    ("ours", "theirs", "standing"),
    [
        (Checkpoint("7"), Checkpoint("7"), Standing.EQUAL),
        (Checkpoint("9"), Checkpoint("10"), Standing.BEHIND),
        (Checkpoint("10", 2), Checkpoint("10", 1), Standing.AHEAD),
        (TRIM_HORIZON, Checkpoint("10"), Standing.BEHIND),
        (SHARD_END, Checkpoint("10"), Standing.AHEAD),
        (LATEST, LATEST, Standing.EQUAL),
        (LATEST, Checkpoint("10"), Standing.UNKNOWN),
    ],
)
def test_a_standing_is_by_position(ours: Checkpoint, theirs: Checkpoint, standing: Standing) -> None:
    (found,) = differences([lease("s", ours)], [lease("s", theirs)])
    assert found.standing is standing
    assert found.differs(NONE) == (standing is not Standing.EQUAL)


def test_positions_that_begin_at_different_times_are_not_ordered() -> None:
    at = Checkpoint("AT_TIMESTAMP")
    (found,) = differences([lease("s", at, start_at=NOW)], [lease("s", at, start_at=NOW + SECOND)])
    assert found.standing is Standing.UNKNOWN
    assert differences([lease("s", at, start_at=NOW)], [lease("s", at, start_at=NOW)])[0].standing is Standing.EQUAL


def test_a_shard_that_one_lacks_is_named() -> None:
    both, one, other = (lease(name, Checkpoint("7")) for name in ("shard-0", "shard-1", "shard-2"))
    found = differences([both, one], [both, other])
    assert [(each.shard_id, each.standing) for each in found] == [
        ("shard-0", Standing.EQUAL),
        ("shard-1", Standing.ONLY_FIRST),
        ("shard-2", Standing.ONLY_SECOND),
    ]


def test_an_ended_shard_whose_lease_one_has_deleted_is_equal() -> None:
    """Its grandchild's lease is enough: the child's may be deleted too."""
    ended = [lease("shard-0", SHARD_END), lease("shard-1", SHARD_END, "shard-0")]
    going_on = lease("shard-2", Checkpoint("7"), "shard-1")
    assert {each.standing for each in differences([*ended, going_on], [going_on])} == {Standing.EQUAL}
    assert {each.standing for each in differences([going_on], [*ended, going_on])} == {Standing.EQUAL}
    stranger = lease("shard-9", Checkpoint("7"))
    assert differences([ended[0], stranger], [stranger])[0].standing is Standing.ONLY_FIRST


def test_a_difference_within_the_tolerance_is_none() -> None:
    found = PositionDifference("s", Standing.BEHIND, None, None, 5 * SECOND)
    assert (found.differs(NONE), found.differs(4 * SECOND), found.differs(5 * SECOND)) == (True, True, False)
    unknown = PositionDifference("s", Standing.BEHIND, None, None)
    assert unknown.differs(60 * SECOND)
    assert PositionDifference("s", Standing.BEHIND, None, None, NONE).differs(NONE), "two records of one moment"


def test_time_between_is_of_what_is_handled() -> None:
    one, other = HandledPosition(NOW - 9 * SECOND, 9 * SECOND), HandledPosition(None, 4 * SECOND)
    assert between(other, one, NOW) == (NOW - 9 * SECOND, NOW - 4 * SECOND)
    assert between(one, HandledPosition(None, None), NOW) is None
