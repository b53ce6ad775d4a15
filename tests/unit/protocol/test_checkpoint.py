"""Checkpoints: KCL's spelling and KCL's order."""

from __future__ import annotations

import itertools

import pytest
from sublet.errors import MalformedCheckpoint
from sublet.protocol.checkpoint import (
    AT_TIMESTAMP,
    LATEST,
    MAX_DIGITS,
    SHARD_END,
    TRIM_HORIZON,
    Checkpoint,
    Sentinel,
)


def test_order_is_that_of_kcls_extended_sequence_number() -> None:
    in_order = [
        AT_TIMESTAMP,
        TRIM_HORIZON,
        LATEST,
        Checkpoint("0"),
        Checkpoint("9"),
        Checkpoint("10"),  # numbers, not text
        Checkpoint("10", 1),
        Checkpoint("10", 10),
        Checkpoint("11"),
        Checkpoint("1" + "0" * (MAX_DIGITS - 1)),
        SHARD_END,
    ]
    backwards = list(reversed(in_order))
    assert sorted(backwards) == in_order
    for earlier, later in itertools.pairwise(in_order):
        assert earlier < later
        assert not later < earlier


@pytest.mark.parametrize(
    "text", ["", "-1", "01", " 1", "1 ", "1\n", "1e3", "trim_horizon", "٣", "9" * (MAX_DIGITS + 1)]
)
def test_text_that_is_no_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(MalformedCheckpoint) as refused:
        Checkpoint.parse(text)
    assert repr(text) in str(refused.value)


def test_a_negative_sub_sequence_number_is_refused() -> None:
    with pytest.raises(MalformedCheckpoint, match="-1 is negative"):
        Checkpoint.parse("5", -1)


def test_the_longest_sequence_number_is_read() -> None:
    assert Checkpoint.parse("9" * MAX_DIGITS).is_sequence_number


@pytest.mark.parametrize("sentinel", Sentinel)
def test_a_sentinel_has_no_sub_sequence_number(sentinel: Sentinel) -> None:
    """kcl-rust keeps epoch millis there; two spellings of one position would compare unequal in Java."""
    assert Checkpoint.parse(sentinel.value, 1_700_000_000_000) == Checkpoint(sentinel.value)
    assert Checkpoint.parse(sentinel.value).sentinel is sentinel


def test_checkpoint_has_a_text() -> None:
    assert str(Checkpoint("495", 3)) == "495:3"
    assert str(Checkpoint("495")) == "495"
    assert str(SHARD_END) == "SHARD_END"
