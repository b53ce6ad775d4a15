"""The lease table looked at all the while: checkpoints as they rise, and leases as they change hands."""

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
    """`taken` counts leases that another worker item goes on with than the one before. `wrong` must stay empty.

    It talks to DynamoDB itself, past the bad network.
    """

    dynamodb: Any
    table: str
    rows: dict[str, list[Sighting]] = field(default_factory=dict)
    taken: int = 0
    _watch: TableWatch = field(init=False)
    _items: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._watch = TableWatch(self.dynamodb, self.table)

    def look(self) -> None:
        found = self.dynamodb.scan(TableName=self.table, ConsistentRead=True)["Items"]
        at = time.time_ns()
        self._watch.look(found)
        for row in found:
            lease = decode_row(row)
            if isinstance(lease, Lease):
                self._note(at, lease)

    @property
    def moves(self) -> int:
        """From one worker id to another."""
        return len(self._watch.moves)

    @property
    def wrong(self) -> list[str]:
        """Rules of the lease table that somebody broke."""
        return self._watch.wrong

    def _note(self, at: int, lease: Lease) -> None:
        history = self.rows.setdefault(lease.lease_key, [])
        if not history or history[-1].checkpoint < lease.checkpoint:
            history.append(Sighting(at, lease.checkpoint))
        if lease.holder is not None:
            item = lease.holder.partition("/")[0]
            self.taken += self._items.get(lease.lease_key, item) != item
            self._items[lease.lease_key] = item
