"""The clauses in the condition of a lease write, each with its name and the reason for it."""

from __future__ import annotations

from sublet.protocol import lease_attributes as attributes
from sublet.protocol.checkpoint import SHARD_END, STARTING_AT_A_MOMENT, STARTING_SENTINELS, Checkpoint
from sublet.protocol.conditions import (
    Absent,
    AllOf,
    AnyOf,
    Clause,
    Condition,
    Equal,
    Exists,
    Less,
    NotEqual,
    Size,
    all_of,
    any_of,
)
from sublet.protocol.lease import Lease, LeaseFence
from sublet.protocol.lease_attributes import moment, number, text

EXISTS = Clause(
    "exists",
    Exists(attributes.LEASE_COUNTER),
    "an update would otherwise create half a row, which stops every KCL; a row without a counter is half a row",
)
NO_SUCH_LEASE = Clause(
    "no_such_lease", Absent(attributes.LEASE_KEY), "never overwrite a lease that another worker created first"
)
NOT_ENDED = Clause(
    "not_ended",
    NotEqual(attributes.CHECKPOINT, text(SHARD_END.sequence_number)),
    "an ended lease stays ended; its children have begun",
)
NOT_DRAINING = Clause(
    "not_draining",
    any_of(
        Absent(attributes.CHECKPOINT_OWNER),
        *(Equal(attributes.CHECKPOINT_OWNER, none) for none in ({"NULL": True}, text(""))),
    ),
    "in a KCL 3.x handoff two workers write the row; it is over within seconds",
)

SEEK_LEAP = 1_000
"""How much a seek adds to the counter. In the seconds in which a late checkpoint may come, new owners never write as
often.
"""


def counter_stands(lease: Lease | LeaseFence) -> Clause:
    fence = Equal(attributes.LEASE_COUNTER, number(lease.lease_counter))
    return Clause("counter_stands", fence, "any later write, of a paused owner or a new one, wins (KCL's fence)")


def not_sought(lease: Lease) -> Clause:
    return Clause(
        "not_sought",
        Less(attributes.LEASE_COUNTER, number(lease.lease_counter + SEEK_LEAP)),
        "a seek may have gone to the very position that the loser knows, so that the loser's records are handled again",
    )


def owner_stands(lease: Lease | LeaseFence) -> Clause:
    because = "a KCL 3.x handoff names a new owner and leaves the counter alone"
    return Clause("owner_stands", _names(attributes.LEASE_OWNER, lease.lease_owner), because)


def _holder_stands(lease: Lease) -> Clause:
    because = "a row that was deleted and created again counts from 0 again, up to our counter and under our worker id"
    return Clause("holder_stands", _names(attributes.HOLDER, lease.holder), because)


def _names(attribute: str, who: str | None) -> Condition:
    """No owner is an absent attribute in KCL; other clients write NULL or empty text instead."""
    if who:
        return Equal(attribute, text(who))
    return any_of(Absent(attribute), *(Equal(attribute, none) for none in ({"NULL": True}, text(""))))


def still_held(lease: Lease) -> AllOf:
    return all_of(counter_stands(lease), owner_stands(lease), _holder_stands(lease))


def drained_by(checkpoint_owner: str | None) -> Clause:
    condition = Equal(attributes.CHECKPOINT_OWNER, text(checkpoint_owner or ""))
    return Clause("drained_by_us", condition, "only the owner that was asked to drain may say that it has")


def position_stands(lease: Lease) -> Clause:
    """The row has the position that its owner last read or wrote, with the attribute that completes it: the
    sub-sequence number, or the start time.
    """
    checkpoint, start_at = lease.position
    within: tuple[Condition, ...] = ()
    if checkpoint.is_sequence_number:
        within = (_is_number_or_none(attributes.SUB_SEQUENCE_NUMBER, checkpoint.sub_sequence_number),)
    elif start_at is not None:
        at = moment(start_at)
        by_kcl_rust = all_of(_is_none(attributes.START_AT), Equal(attributes.SUB_SEQUENCE_NUMBER, at))
        within = (any_of(Equal(attributes.START_AT, at), by_kcl_rust),)
    elif checkpoint in STARTING_AT_A_MOMENT:
        within = (_is_none(attributes.START_AT),)
    because = "an operator may have moved it, or the previous owner checkpointed late: the stored position counts"
    stands = Equal(attributes.CHECKPOINT, text(checkpoint.sequence_number))
    return Clause("position_stands", all_of(stands, *within), because)


def _is_number_or_none(attribute: str, value: int) -> Condition:
    """Zero may also be absent."""
    stands = Equal(attribute, number(value))
    return stands if value else any_of(stands, _is_none(attribute))


def _is_none(attribute: str) -> AnyOf:
    return any_of(Absent(attribute), Equal(attribute, {"NULL": True}))


def further_on(to: Checkpoint) -> Clause:
    """The stored checkpoint is before `to`. DynamoDB compares text by character, so lengths are compared first; the
    sub-sequence number comes last.

    A sentinel is before every sequence number; SHARD_END is never compared, since `not_ended` excludes it. A stored
    value that is not a number is not ours to repair (KCL could not have written it).
    """
    stored, to_text = attributes.CHECKPOINT, text(to.sequence_number)
    sub = attributes.SUB_SEQUENCE_NUMBER
    sub_is_less = any_of(_is_none(sub), Less(sub, number(to.sub_sequence_number)))
    before = any_of(
        *(Equal(stored, text(sentinel.value)) for sentinel in STARTING_SENTINELS),
        all_of(Size(stored, "<", len(to.sequence_number)), _is_number(stored)),
        all_of(Size(stored, "=", len(to.sequence_number)), Less(stored, to_text)),
        all_of(Equal(stored, to_text), sub_is_less),
    )
    return Clause(
        "further_on",
        all_of(NOT_ENDED, before),
        "a checkpoint never goes back, no matter which worker writes it, or how late",
    )


def _is_number(attribute: str) -> Less:
    """Its first character is at most a digit: `:` follows 9, and letters come later."""
    return Less(attribute, text(":"))
