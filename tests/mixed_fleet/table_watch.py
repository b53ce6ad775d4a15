"""Watches the lease table all the time, for changes that neither side may make.

Checked after every write: each row is readable to sublet, counters rise, checkpoints never go back, SHARD_END stays,
and attributes that no writer may remove stay.

One violation is KCL's own and only counted: its checkpoints are fenced by the counter, but not guarded against going
back. A worker that took a lease from a live sublet worker writes its own position, even over a later one that sublet
has meanwhile written as its late checkpoint. The records in between come again if the new owner dies at once; nothing
is lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sublet.protocol.lease import AttributeValue, Lease, MalformedRow
from sublet.protocol.lease_attributes import ENTITY_TYPE
from sublet.protocol.lease_row import decode_row
from sublet.protocol.write_clauses import SEEK_LEAP

from tests.mixed_fleet.workers import KCL_SIDES

TRANSIENT = {
    "leaseOwner",
    "checkpointOwner",
    "childShardIds",
    "pendingCheckpoint",
    "pendingCheckpointState",
    "pendingCheckpointSubSequenceNumber",
    "subletStartAt",
    "subletCaughtUpAt",
    "subletQuietUntil",
    "subletLag",
    "subletSeen",
    "subletFailing",
    "subletHolder",
    "subletCounter",
    "subletCrashes",
    "subletCrashedAt",
    "subletAttempts",
    "subletAhead",
}
"""Attributes that a rule of the protocol removes again."""


@dataclass
class TableWatch:
    """Gets the whole table again and again (`history`). `wrong` must stay empty.

    is_moved_back  an operator moves positions: a write that takes the lease from its owner may move it back
    """

    rows: dict[str, dict[str, AttributeValue]] = field(default_factory=dict)
    moves: list[tuple[str | None, str | None]] = field(default_factory=list)
    last_owner: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    set_back: int = 0
    is_moved_back: bool = False
    looks: int = 0

    def look(self, items: list[dict[str, AttributeValue]]) -> None:
        self.looks += 1
        now = {item["leaseKey"]["S"]: item for item in items}
        for key, row in now.items():
            if before := self.rows.get(key):
                self._compare(key, before, row)
            else:
                self._begin(key, row)
        self.rows = now

    def _begin(self, key: str, row: dict[str, AttributeValue]) -> None:
        match decode_row(row):
            case Lease(lease_owner=str(owner)):
                self.last_owner[key] = owner
            case MalformedRow() as malformed:
                self.wrong.append(f"{key}: {malformed}")

    def _compare(self, key: str, before: dict[str, AttributeValue], after: dict[str, AttributeValue]) -> None:
        was, now = decode_row(before), decode_row(after)
        if not isinstance(was, Lease) or not isinstance(now, Lease):
            if ENTITY_TYPE not in after or after[ENTITY_TYPE] == {"S": "LEASE"}:
                self.wrong.append(f"{key}: {now}")
            return
        if now.lease_owner not in (None, self.last_owner.get(key)):
            self.moves.append((self.last_owner.get(key), now.lease_owner))
            self.last_owner[key] = now.lease_owner
        if now.lease_counter < was.lease_counter:
            self.wrong.append(f"{key}: counter went from {was.lease_counter} to {now.lease_counter}")
        if now.checkpoint < was.checkpoint and _is_kcls(now) and now.lease_counter > was.lease_counter:
            self.set_back += 1
        elif now.checkpoint < was.checkpoint and not (self.is_moved_back and _is_evicted(was, now)):
            self.wrong.append(f"{key}: checkpoint went from {was.checkpoint} back to {now.checkpoint}")
        if gone := before.keys() - after.keys() - TRANSIENT:
            self.wrong.append(f"{key}: attributes {sorted(gone)} are gone")

    def in_play(self) -> dict[str, Lease]:
        """Leases that have not ended, by lease key."""
        leases = (decode_row(row) for row in self.rows.values())
        return {lease.lease_key: lease for lease in leases if isinstance(lease, Lease) and not lease.is_ended}

    def owners(self) -> dict[str, str | None]:
        return {key: lease.lease_owner for key, lease in self.in_play().items()}


def _is_evicted(was: Lease, now: Lease) -> bool:
    return now.lease_owner is None and now.lease_counter == was.lease_counter + SEEK_LEAP


def _is_kcls(lease: Lease) -> bool:
    return (lease.lease_owner or "").startswith(KCL_SIDES)
