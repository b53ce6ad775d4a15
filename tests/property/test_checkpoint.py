"""The order of any checkpoints."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from sublet.protocol.checkpoint import MAX_DIGITS, SHARD_END, STARTING_SENTINELS, Checkpoint, Sentinel

sequence_numbers = st.integers(0, 10**MAX_DIGITS - 1).map(str)
numeric = st.builds(Checkpoint, sequence_numbers, st.integers(0, 10_000))
sentinels = st.sampled_from(Sentinel).map(lambda sentinel: Checkpoint(sentinel.value))
checkpoints = st.one_of(numeric, sentinels)


@given(numeric, numeric)
def test_numbers_compare_as_integers_then_by_position_in_the_record(left: Checkpoint, right: Checkpoint) -> None:
    as_numbers = [(int(c.sequence_number), c.sub_sequence_number) for c in (left, right)]
    assert (left < right) == (as_numbers[0] < as_numbers[1])


@given(checkpoints, checkpoints)
def test_the_order_is_total(left: Checkpoint, right: Checkpoint) -> None:
    assert (left < right) + (right < left) + (left == right) == 1
    assert (left <= right) == (right >= left) == (left < right or left == right)
    assert (left > right) == (right < left)


@given(numeric)
def test_sequence_number_lies_between_the_start_sentinels_and_shard_end(number: Checkpoint) -> None:
    assert all(Checkpoint(start.value) < number for start in STARTING_SENTINELS)
    assert number < SHARD_END


@given(checkpoints)
def test_checkpoint_of_a_row_round_trips(checkpoint: Checkpoint) -> None:
    assert Checkpoint.parse(checkpoint.sequence_number, checkpoint.sub_sequence_number) == checkpoint
