"""What no sequence of writes, made for any state of the row, can do to a lease."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from sublet.protocol.lease import AttributeValue, Lease
from sublet.protocol.lease_row import (
    FAILING,
    LAG,
    QUIET,
    ROW_BYTES_MAX,
    bytes_of,
    decode_row,
    encode_row,
    quiet_until,
)
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


some_writes = st.lists(lease_writes(), max_size=12)


@given(leases(), some_writes)
def test_the_counter_rises_by_one_or_stays(first: Lease, writes: list[LeaseWrite]) -> None:
    """Only a late checkpoint leaves it, so that the new owner's fence holds."""
    for before, write, after in _states(first, writes):
        expected = 0 if write.kind is WriteKind.LATE_CHECKPOINT else 1
        assert after.lease_counter - before.lease_counter == expected


@given(leases(), some_writes)
def test_a_checkpoint_never_goes_back(first: Lease, writes: list[LeaseWrite]) -> None:
    """But by an operator's seek."""
    for before, write, after in _states(first, writes):
        assert before.checkpoint <= after.checkpoint or write.kind is WriteKind.SEEK


@given(leases(), some_writes)
def test_only_acquire_gives_a_lease_to_anybody(first: Lease, writes: list[LeaseWrite]) -> None:
    for before, write, after in _states(first, writes):
        if write.kind is not WriteKind.ACQUIRE:
            assert after.lease_owner in (before.lease_owner, None)


@given(leases(), some_writes)
def test_attributes_of_others_are_left_alone(first: Lease, writes: list[LeaseWrite]) -> None:
    for before, _, after in _states(first, writes):
        assert after.other == before.other


@given(leases(), some_writes)
def test_a_moment_up_to_which_a_shard_is_quiet_counts_for_the_position_that_it_was_noted_of(
    first: Lease, writes: list[LeaseWrite]
) -> None:
    """And no write of a position leaves any."""
    for before, write, after in _states(first, writes):
        if after.quiet_until is not None:
            noted = write.sets.get(QUIET)
            assert before.position == after.position
            assert after.quiet is not None
            assert after.quiet == before.quiet if noted is None else noted == quiet_until(after.quiet)
        if write.moves_to is not None or write.kind is WriteKind.LATE_CHECKPOINT:
            assert after.quiet is None


@given(leases(), some_writes)
def test_a_lag_counts_for_the_checkpoint_that_it_was_reported_with(
    first: Lease, writes: list[LeaseWrite]
) -> None:
    """A write that moves the position removes everything that described the old one, even if an operator makes it."""
    for before, write, after in _states(first, writes):
        if LAG not in write.sets and after.lag_report is not None:
            assert (after.lag_report, after.position) == (before.lag_report, before.position)
        if write.kind in (WriteKind.SEEK, WriteKind.END, WriteKind.LATE_CHECKPOINT, WriteKind.PIN):
            assert after.lag_report is None


@given(leases(), some_writes)
def test_a_failure_counts_for_the_checkpoint_that_it_was_reported_with(
    first: Lease, writes: list[LeaseWrite]
) -> None:
    for before, write, after in _states(first, writes):
        if FAILING not in write.sets and after.failing is not None:
            assert (after.failing, after.checkpoint) == (before.failing, before.checkpoint)
        if write.kind in (WriteKind.SEEK, WriteKind.END, WriteKind.LATE_CHECKPOINT):
            assert after.failing is None


@given(leases(), some_writes)
def test_a_failure_is_reported_only_where_the_row_stays_in_one_write_unit(
    first: Lease, writes: list[LeaseWrite]
) -> None:
    for _, write, after in _states(first, writes):
        if FAILING in write.sets and write.kind is not WriteKind.CREATE:
            assert bytes_of({**write.sets, **encode_row(after)}) <= ROW_BYTES_MAX or after.other


@given(leases(), some_writes)
def test_a_lag_is_reported_only_where_the_row_stays_in_one_write_unit(
    first: Lease, writes: list[LeaseWrite]
) -> None:
    for _, write, after in _states(first, writes):
        if LAG in write.sets and write.kind is not WriteKind.CREATE:
            said = {**write.sets, **encode_row(after)}
            assert bytes_of(said) <= ROW_BYTES_MAX or after.other


@given(leases(), lease_writes())
def test_the_same_write_is_never_accepted_twice(lease: Lease, write: LeaseWrite) -> None:
    """If a response is lost the write is retried, and must not count twice."""
    row = None if write.kind is WriteKind.CREATE else encode_row(lease)
    once = apply_to(write, row)
    if once is None:
        return
    assert apply_to(write, once or None) is None
