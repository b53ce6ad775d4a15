"""For any history of shards and any table, a shard sync leads every open shard to a lease."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from sublet.decisions.manager.hash_range_audit import holes
from sublet.decisions.manager.shard_sync import plan_shard_sync
from sublet.protocol.checkpoint import SHARD_END, Checkpoint
from sublet.protocol.lease import Lease
from sublet.protocol.shard import Shard, creation_order
from sublet.settings import StartKind, StartPosition

from tests.property.lineage import Lineage, lineages

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
start_positions = st.sampled_from(
    [
        StartPosition(StartKind.TRIM_HORIZON),
        StartPosition(StartKind.LATEST),
        StartPosition(StartKind.AT_TIMESTAMP, MOMENT),
    ]
)


@st.composite
def tables(draw: st.DrawFn, lineage: Lineage) -> list[Lease]:
    """Leases of any of the shards; those of closed shards may have ended."""
    table = []
    for shard in lineage.shards.values():
        if draw(st.booleans()):
            ended = not shard.is_open and draw(st.booleans())
            table.append(_lease(shard, SHARD_END if ended else Checkpoint("7")))
    return table


@given(st.data(), lineages, start_positions, st.integers(0, 3))
def test_every_open_shard_is_led_to_a_lease(
    data: st.DataObject, lineage: Lineage, start_position: StartPosition, trimmed: int
) -> None:
    shards = lineage.listing(trimmed)
    table = {lease.lease_key: lease for lease in data.draw(tables(lineage))}
    for _ in range(len(shards) + 1):
        plan = plan_shard_sync(list(table.values()), [], shards, start_position)
        assert not plan.inconsistent
        assert plan.holes == (holes(table.values()) if table else ())
        table |= {new.lease.lease_key: new.lease for new in plan.create}
        table = {key: _handled(lease, lineage) for key, lease in table.items()}
    assert {shard.shard_id for shard in shards if shard.is_open} <= table.keys()
    assert holes(table.values()) == ()


@given(st.data(), lineages, start_positions, st.integers(0, 3))
def test_a_sync_that_fails_halfway_is_finished_by_the_next(
    data: st.DataObject, lineage: Lineage, start_position: StartPosition, trimmed: int
) -> None:
    shards = lineage.listing(trimmed)
    table = data.draw(tables(lineage))
    whole = [new.lease for new in plan_shard_sync(table, [], shards, start_position).create]
    done = data.draw(st.integers(0, len(whole)), label="created before it failed")
    table += whole[:done]
    rest = [new.lease for new in plan_shard_sync(table, [], shards, start_position).create]
    assert rest == whole[done:]


@given(st.data(), lineages, start_positions)
def test_shard_sync_creates_whole_leases_in_order_without_existing_rows(
    data: st.DataObject, lineage: Lineage, start_position: StartPosition
) -> None:
    rows = data.draw(tables(lineage))
    malformed = [lease.lease_key for lease in rows if data.draw(st.booleans())]
    leases = [lease for lease in rows if lease.lease_key not in malformed]
    created = [new.lease for new in plan_shard_sync(leases, malformed, lineage.listing(), start_position).create]
    shards = [lineage.shards[lease.lease_key] for lease in created]
    assert not {lease.lease_key for lease in created} & {lease.lease_key for lease in rows}
    assert shards == sorted(shards, key=creation_order)
    assert [lease.hash_key_range for lease in created] == [shard.hash_key_range for shard in shards]
    assert [lease.parent_shard_ids for lease in created] == [shard.parent_shard_ids for shard in shards]


@given(st.data(), lineages, start_positions)
def test_the_order_of_rows_and_shards_does_not_matter(
    data: st.DataObject, lineage: Lineage, start_position: StartPosition
) -> None:
    table, shards = data.draw(tables(lineage)), lineage.listing()
    plan = plan_shard_sync(table, [], shards, start_position)
    shuffled: Sequence[Shard] = data.draw(st.permutations(shards))
    assert plan == plan_shard_sync(table[::-1], [], shuffled, start_position)


def _lease(shard: Shard, checkpoint: Checkpoint) -> Lease:
    return Lease(
        shard.shard_id,
        checkpoint,
        parent_shard_ids=shard.parent_shard_ids,
        hash_key_range=shard.hash_key_range,
    )


def _handled(lease: Lease, lineage: Lineage) -> Lease:
    """A closed shard handled to its end by a worker that creates no leases for the children."""
    shard = lineage.shards[lease.lease_key]
    return lease if shard.is_open else replace(lease, checkpoint=SHARD_END)
