"""The Java KCL's conditional writes (its DynamoDBLeaseRefresher and DynamoDBLeaseSerializer), where they differ from
ours.

It fences by the counter alone, or by the owner alone, and does not know our own attributes: a lease that it takes from
us still names our holder.
"""

from __future__ import annotations

from sublet.protocol import lease_attributes as attributes
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.conditions import Absent, Clause, Condition, Equal, Exists, all_of
from sublet.protocol.lease import Lease
from sublet.protocol.lease_attributes import number, text, texts
from sublet.protocol.lease_writes import LeaseWrite, WriteKind


def renew(lease: Lease, version: int) -> LeaseWrite:
    """3.x: not while a handoff is requested, until the worker has noticed it."""
    conditions = [_counter(lease)]
    if version == 3 and lease.checkpoint_owner is None:
        conditions.append(_clause(Absent(attributes.CHECKPOINT_OWNER)))
    return LeaseWrite(WriteKind.HEARTBEAT, lease.lease_key, all_of(*conditions), adds={attributes.LEASE_COUNTER: 1})


def take(lease: Lease, worker_id: str) -> LeaseWrite:
    """2.x's takeLease: from any owner, if the counter is as it was scanned."""
    return LeaseWrite(
        WriteKind.ACQUIRE,
        lease.lease_key,
        all_of(_counter(lease)),
        sets={attributes.LEASE_OWNER: text(worker_id)},
        adds={attributes.LEASE_COUNTER: 1, **_switch(lease, worker_id)},
        removes=(attributes.CHECKPOINT_OWNER,),
    )


def assign(lease: Lease, worker_id: str) -> LeaseWrite:
    """3.x's assignLease, by the leader, or by an owner that has drained: fenced by the owners, not by the counter."""
    return LeaseWrite(
        WriteKind.ACQUIRE,
        lease.lease_key,
        all_of(
            _exists(),
            _is(attributes.LEASE_OWNER, lease.lease_owner),
            _is(attributes.CHECKPOINT_OWNER, lease.checkpoint_owner),
        ),
        sets={attributes.LEASE_OWNER: text(worker_id)},
        adds={attributes.LEASE_COUNTER: 1, **_switch(lease, worker_id)},
        removes=(attributes.CHECKPOINT_OWNER,),
    )


def ask_to_hand_over(lease: Lease, worker_id: str) -> LeaseWrite:
    """3.x's initiateGracefulLeaseHandoff: names a new owner while the old one still checkpoints; the counter stays."""
    return LeaseWrite(
        WriteKind.HAND_OVER,
        lease.lease_key,
        all_of(_exists(), _is(attributes.LEASE_OWNER, lease.lease_owner), _clause(Absent(attributes.CHECKPOINT_OWNER))),
        sets={attributes.LEASE_OWNER: text(worker_id), attributes.CHECKPOINT_OWNER: text(lease.lease_owner or "")},
    )


def update(lease: Lease, to: Checkpoint) -> LeaseWrite:
    """updateLease: writes the checkpoint in memory, whatever the row says. At SHARD_END it keeps the owner."""
    return LeaseWrite(
        WriteKind.CHECKPOINT,
        lease.lease_key,
        all_of(_counter(lease)),
        sets={
            attributes.CHECKPOINT: text(to.sequence_number),
            attributes.SUB_SEQUENCE_NUMBER: number(to.sub_sequence_number),
            attributes.OWNER_SWITCHES: number(0),
        },
        adds={attributes.LEASE_COUNTER: 1},
        removes=attributes.PENDING,
    )


def name_children(lease: Lease, children: frozenset[str]) -> LeaseWrite:
    """updateLeaseWithMetaInfo: fenced only by the row's existence."""
    return LeaseWrite(
        WriteKind.SET_CHILDREN,
        lease.lease_key,
        all_of(_exists()),
        sets={attributes.CHILDREN: texts(children)},
    )


def delete(lease_key: str) -> LeaseWrite:
    return LeaseWrite(WriteKind.DELETE, lease_key, all_of(_exists()))


def _exists() -> Clause:
    return _clause(Exists(attributes.LEASE_KEY))


def _counter(lease: Lease) -> Clause:
    return _clause(Equal(attributes.LEASE_COUNTER, number(lease.lease_counter)))


def _is(attribute: str, value: str | None) -> Clause:
    return _clause(Absent(attribute) if value is None else Equal(attribute, text(value)))


def _clause(condition: Condition) -> Clause:
    return Clause("java", condition, "Java's rule")


def _switch(lease: Lease, worker_id: str) -> dict[str, int]:
    return {attributes.OWNER_SWITCHES: 1} if lease.lease_owner not in (None, worker_id) else {}
