"""Cleanup never causes a shard to be read twice or forgotten, for whole histories of a table."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from sublet.decisions.manager.lease_cleanup import DeleteReason, plan_lease_cleanup
from sublet.decisions.manager.shard_sync import plan_shard_sync
from sublet.protocol.checkpoint import SHARD_END, TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import Lease
from sublet.protocol.shard import Shard
from sublet.settings import StartPosition

from tests.property.lineage import Lineage
from tests.property.test_shard_sync import start_positions


class Table:
    """A lease table, its workers and a stream that reshards, one step at a time."""

    def __init__(self, first: int, start_position: StartPosition) -> None:
        self.lineage = Lineage(first)
        self.start_position = start_position
        self.leases: dict[str, Lease] = {}
        self.created: list[str] = []

    def tick(self) -> None:
        leases, shards = list(self.leases.values()), self.lineage.listing()
        deletions = plan_lease_cleanup(leases, shards)
        for new in plan_shard_sync(leases, [], shards, self.start_position).create:
            self._create(new.lease)
        for deletion in deletions:
            assert deletion.why is DeleteReason.COMPLETED
            children = self.lineage.children_of(deletion.lease.shard_id)
            assert children
            assert all(child.shard_id in self.leases for child in children)
            del self.leases[deletion.lease.lease_key]

    def read(self, choice: int) -> None:
        """The first records of some lease are handled."""
        lease = self._pick(choice)
        if lease is not None and not lease.is_ended:
            self.leases[lease.lease_key] = replace(lease, checkpoint=Checkpoint(str(choice)))

    def end(self, choice: int, children_created: int) -> None:
        """Some closed shard is handled to its end; a careless worker creates only a few of its children's leases."""
        lease = self._pick(choice)
        if lease is None or lease.is_ended or self.lineage.shards[lease.shard_id].is_open:
            return
        children = self.lineage.children_of(lease.shard_id)
        for child in children[:children_created]:
            self._create(_from_its_beginning(child))
        ids = frozenset(child.shard_id for child in children)
        self.leases[lease.lease_key] = replace(lease, checkpoint=SHARD_END, child_shard_ids=ids)

    def _pick(self, choice: int) -> Lease | None:
        """A lease that may be worked on: its parents have ended or are gone."""
        ready = [
            lease
            for lease in self.leases.values()
            if all(p not in self.leases or self.leases[p].is_ended for p in lease.parent_shard_ids)
        ]
        return ready[choice % len(ready)] if ready else None

    def _create(self, lease: Lease) -> None:
        if lease.lease_key not in self.leases:
            self.leases[lease.lease_key] = lease
            self.created.append(lease.lease_key)


def _from_its_beginning(shard: Shard) -> Lease:
    return Lease(
        shard.shard_id,
        TRIM_HORIZON,
        parent_shard_ids=shard.parent_shard_ids,
        hash_key_range=shard.hash_key_range,
    )


steps = st.lists(
    st.tuples(st.sampled_from(["tick", "reshard", "read", "end"]), st.integers(0, 40), st.integers(0, 2)),
    max_size=40,
)


@given(st.integers(1, 3), start_positions, steps)
def test_every_shard_gets_one_lease_in_its_life(
    first: int, start_position: StartPosition, history: list[tuple[str, int, int]]
) -> None:
    table = Table(first, start_position)
    table.tick()
    for step, choice, children_created in history:
        match step:
            case "tick":
                table.tick()
            case "reshard":
                table.lineage.reshard(choice)
            case "read":
                table.read(choice)
            case _:
                table.end(choice, children_created)
    for _ in range(len(table.lineage.shards) + 1):
        table.tick()
        for choice in range(len(table.leases)):
            table.read(choice)
            table.end(choice, 0)
    table.tick()
    assert sorted(table.created) == sorted(table.lineage.shards)
