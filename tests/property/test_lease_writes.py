"""Promises about a lease that no sequence of writes can break, in whatever state of the row they were made."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from sublet.protocol.lease import AttributeValue, Lease
from sublet.protocol.lease_attributes import (
    FAILING,
    LAG,
    QUIET,
    ROW_BYTES_MAX,
    UNANSWERED,
    bytes_of,
    quiet_until,
)
from sublet.protocol.lease_row import decode_row, encode_row
from sublet.protocol.lease_writes import LeaseWrite, WriteKind, apply_to

from tests.property.lease_rows import lease_writes, leases


def _states(first: Lease, writes: list[LeaseWrite]) -> list[tuple[Lease, LeaseWrite, Lease]]:
    """Each accepted write, with the lease before and after it; deletes and creates start no new life here."""
    row: dict[str, AttributeValue] = encode_row(first)
    steps = []
    for write in writes:
        after = None if write.kind is WriteKind.DELETE else apply_to(write, row)
        if after is not None:
            before_lease, after_lease = decode_row(row), decode_row(after)
            assert isinstance(before_lease, Lease)
            assert isinstance(after_lease, Lease)
            steps.append((before_lease, write, after_lease))
            row = after
    return steps


def the_counter_rises_by_one_or_stays(before: Lease, write: LeaseWrite, after: Lease) -> None:
    """Only a late checkpoint leaves it, so that the new owner's fence holds."""
    expected = 0 if write.kind is WriteKind.LATE_CHECKPOINT else 1
    assert after.lease_counter - before.lease_counter == expected


def a_checkpoint_never_goes_back(before: Lease, write: LeaseWrite, after: Lease) -> None:
    """But by an operator's seek."""
    assert before.checkpoint <= after.checkpoint or write.kind is WriteKind.SEEK


def only_acquire_gives_a_lease_to_anybody(before: Lease, write: LeaseWrite, after: Lease) -> None:
    if write.kind is not WriteKind.ACQUIRE:
        assert after.lease_owner in (before.lease_owner, None)


def attributes_of_others_are_left_alone(before: Lease, _: LeaseWrite, after: Lease) -> None:
    assert after.other == before.other


def a_moment_up_to_which_a_shard_is_quiet_counts_for_the_position_that_it_was_noted_of(
    before: Lease, write: LeaseWrite, after: Lease
) -> None:
    """And no write of a position leaves any."""
    if after.quiet_until is not None:
        noted = write.sets.get(QUIET)
        assert before.position == after.position
        assert after.quiet is not None
        assert after.quiet == before.quiet if noted is None else noted == quiet_until(after.quiet)
    if write.moves_to is not None or write.kind is WriteKind.LATE_CHECKPOINT:
        assert after.quiet is None


def a_lag_counts_for_the_checkpoint_that_it_was_reported_with(before: Lease, write: LeaseWrite, after: Lease) -> None:
    """A write that moves the position removes everything that described the old one, even if an operator makes it."""
    if LAG not in write.sets and after.lag_report is not None:
        assert (after.lag_report, after.position) == (before.lag_report, before.position)
    if write.kind in (WriteKind.SEEK, WriteKind.END, WriteKind.LATE_CHECKPOINT, WriteKind.PIN):
        assert after.lag_report is None


def a_failure_counts_for_the_checkpoint_that_it_was_reported_with(
    before: Lease, write: LeaseWrite, after: Lease
) -> None:
    if FAILING not in write.sets and after.failing is not None:
        assert (after.failing, after.checkpoint) == (before.failing, before.checkpoint)
    if write.kind in (WriteKind.SEEK, WriteKind.END, WriteKind.LATE_CHECKPOINT):
        assert after.failing is None


def what_a_row_says_of_reads_is_of_its_last_write(before: Lease, write: LeaseWrite, after: Lease) -> None:
    """A late checkpoint is not the owner's, and leaves the counter alone."""
    if UNANSWERED not in write.sets and after.lease_counter != before.lease_counter:
        assert after.unanswered_since is None


def a_lag_or_failure_is_reported_only_where_the_row_stays_in_one_write_unit(
    _: Lease, write: LeaseWrite, after: Lease
) -> None:
    if write.sets.keys() & {LAG, FAILING} and write.kind is not WriteKind.CREATE:
        assert bytes_of({**write.sets, **encode_row(after)}) <= ROW_BYTES_MAX or after.other


RULES = (
    the_counter_rises_by_one_or_stays,
    a_checkpoint_never_goes_back,
    only_acquire_gives_a_lease_to_anybody,
    attributes_of_others_are_left_alone,
    a_moment_up_to_which_a_shard_is_quiet_counts_for_the_position_that_it_was_noted_of,
    a_lag_counts_for_the_checkpoint_that_it_was_reported_with,
    a_failure_counts_for_the_checkpoint_that_it_was_reported_with,
    what_a_row_says_of_reads_is_of_its_last_write,
    a_lag_or_failure_is_reported_only_where_the_row_stays_in_one_write_unit,
)


@settings(max_examples=2 * settings().max_examples)
@given(leases(), st.lists(lease_writes(), max_size=12))
def test_every_accepted_write_keeps_the_rules(first: Lease, writes: list[LeaseWrite]) -> None:
    """All rules on the same sequences: drawing them takes longer than any rule."""
    for step in _states(first, writes):
        for rule in RULES:
            rule(*step)


@given(leases(), lease_writes())
def test_the_same_write_is_never_accepted_twice(lease: Lease, write: LeaseWrite) -> None:
    """If a response is lost the write is retried, and must not count twice."""
    row = None if write.kind is WriteKind.CREATE else encode_row(lease)
    once = apply_to(write, row)
    if once is None:
        return
    assert apply_to(write, once or None) is None
