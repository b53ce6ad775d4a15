"""Watches the lease table all the time: checkpoints as they rise, and leases as they change hands."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import decode_row

from tests.chaos.verdict import Sighting
from tests.mixed_fleet.table_watch import TableWatch


@dataclass
class Observer:
    """`taken` counts leases that moved to another worker item, `moves` those that also changed their worker id.
    `wrong` must stay empty.

    It talks to DynamoDB directly, past the bad network.
    """

    dynamodb: Any
    table: str
    rows: dict[str, list[Sighting]] = field(default_factory=dict)
    taken: int = 0
    moves: int = 0
    _watch: TableWatch = field(init=False)
    _items: dict[str, str] = field(default_factory=dict)
    _owners: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._watch = TableWatch()

    def look(self) -> None:
        found = self.dynamodb.scan(TableName=self.table, ConsistentRead=True)["Items"]
        at = time.time_ns()
        self._watch.look(found)
        for row in found:
            lease = decode_row(row)
            if isinstance(lease, Lease):
                self._note(at, lease)

    @property
    def wrong(self) -> list[str]:
        """Broken rules of the lease table."""
        return self._watch.wrong

    def _note(self, at: int, lease: Lease) -> None:
        history = self.rows.setdefault(lease.lease_key, [])
        if not history or history[-1].checkpoint < lease.checkpoint:
            history.append(Sighting(at, lease.checkpoint))
        if lease.holder is not None and lease.lease_owner is not None:
            item, owner = lease.holder.partition("/")[0], lease.lease_owner
            self.taken += self._items.setdefault(lease.lease_key, item) != item
            self.moves += self._owners.setdefault(lease.lease_key, owner) != owner
            self._items[lease.lease_key], self._owners[lease.lease_key] = item, owner
