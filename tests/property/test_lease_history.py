"""Whatever ticks see of a lease: its observations stay few, in order, apart from each other, and lead to a verdict."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from sublet.decisions.manager.liveness import Sighting, observe
from sublet.decisions.session.lag import LENGTH, PACE
from sublet.decisions.status.lease_history import History, histories_after
from sublet.decisions.status.status_rules import Status, standing_of
from sublet.protocol.checkpoint import LATEST, TRIM_HORIZON, Checkpoint
from sublet.protocol.handler_failure import HandlerFailure
from sublet.protocol.lease import Lease

NOW = datetime(2026, 1, 31, 8, tzinfo=UTC)
KEY = "shardId-000000000000"

positions = st.sampled_from([TRIM_HORIZON, LATEST, *(Checkpoint(str(n)) for n in range(5))])
waits = st.none() | st.integers(0, 100_000).map(lambda s: timedelta(seconds=s))
ticks = st.lists(
    st.tuples(st.integers(0, 5_000), positions, st.integers(0, 2), st.sampled_from([None, "a", "b"]), waits),
    max_size=25,
)


@given(ticks)
def test_observations_stay_few_and_apart(
    seen: list[tuple[int, Checkpoint, int, str | None, timedelta | None]],
) -> None:
    histories: dict[str, History] = {}
    sightings: dict[str, Sighting] = {}
    now, counter = NOW, 0
    for later, checkpoint, writes, owner, waiting in seen:
        now, counter = now + timedelta(seconds=later), counter + writes
        lease = Lease(KEY, checkpoint, counter, owner)
        histories = dict(histories_after(histories, [lease], sightings, {KEY: waiting}, now))
        sightings = dict(observe(sightings, [lease], now))
        history = histories.get(KEY, ())
        moments = [look.at for look in history]
        assert len(history) <= LENGTH
        assert all(after - before >= PACE for before, after in pairwise(moments))
        stands = standing_of(lease, history, now, waiting=waiting)
        if waiting == timedelta(0):
            assert stands.verdict.status is Status.OK, "quiet is never behind"
        if stands.verdict.status in (Status.BEHIND, Status.STALLED, Status.STOPPED):
            assert stands.behind, "only a shard with waiting records is in trouble"
        if stands.caught_up_in is not None:
            assert stands.trend is not None
            assert stands.trend < 0


@given(ticks, st.integers(1, 3), st.integers(0, 3))
def test_lease_row_takes_precedence_over_its_observed_history(
    seen: list[tuple[int, Checkpoint, int, str | None, timedelta | None]], attempt: int, crashes: int
) -> None:
    histories: dict[str, History] = {}
    sightings: dict[str, Sighting] = {}
    now, counter = NOW, 0
    for later, checkpoint, writes, owner, waiting in seen:
        now, counter = now + timedelta(seconds=later), counter + writes
        failing = HandlerFailure("ValueError", attempt, now)
        lease = Lease(KEY, checkpoint, counter, owner, failing=failing, crashes=crashes)
        histories = dict(histories_after(histories, [lease], sightings, {KEY: waiting}, now))
        sightings = dict(observe(sightings, [lease], now))
        stands = standing_of(lease, histories.get(KEY, ()), now, waiting=waiting)
        is_failing = attempt > 1 or crashes > 1
        assert (stands.verdict.status is Status.FAILING) == is_failing or stands.verdict.status is Status.STOPPED


@given(ticks)
def test_an_ended_or_deleted_lease_leaves_nothing(
    seen: list[tuple[int, Checkpoint, int, str | None, timedelta | None]],
) -> None:
    leases = [Lease(KEY, checkpoint, n, owner) for _, checkpoint, n, owner, _ in seen]
    before = histories_after({}, leases, {}, {}, NOW)
    assert histories_after(before, [], {}, {}, NOW + PACE) == {}
    ended = Lease(KEY, Checkpoint("SHARD_END"), 9)
    assert histories_after(before, [ended], {}, {}, NOW + PACE) == {}
