"""A snapshot as a file and as an item, and what is said of other files."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sublet.errors import SnapshotUnreadable
from sublet.protocol.lease import Position
from sublet.protocol.snapshot import (
    Snapshot,
    decode_snapshot,
    encode_snapshot,
    read_snapshot,
    snapshot_text,
)
from sublet.testing.memory.clock import BEGINNING

from tests.property.lease_rows import positions


@given(st.dictionaries(st.text(min_size=1, max_size=9), positions, max_size=4))
def test_snapshot_round_trips(known: dict[str, Position]) -> None:
    keys = tuple(sorted(known))
    snapshot = Snapshot("name", BEGINNING, "why", known, keys, absent=keys[:1])
    assert read_snapshot(snapshot_text(snapshot)) == snapshot
    assert decode_snapshot(encode_snapshot(snapshot)) == snapshot


def test_snapshot_of_an_earlier_version_names_no_absent_leases() -> None:
    written = json.loads(snapshot_text(Snapshot("name", BEGINNING, "why", {}, absent=("a",))))
    del written["absent"]
    assert read_snapshot(json.dumps(written)).absent == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not a snapshot"),
        ("[]", "not a snapshot"),
        ('{"version": 2}', "its version is 2, and this sublet reads 1"),
        ('{"version": 1, "name": "n", "taken_at": 0, "why": "", "positions": {"a": ["x1", 0, null]}}', "x1"),
        ('{"version": 1, "positions": {"a": ["1", 0]}}', "not a snapshot"),
    ],
)
def test_unreadable_snapshot_is_refused_with_the_reason(text: str, says: str) -> None:
    with pytest.raises(SnapshotUnreadable, match=says):
        read_snapshot(text)


def test_a_damaged_item_is_named_as_such() -> None:
    with pytest.raises(SnapshotUnreadable, match="damaged"):
        decode_snapshot(b"not compressed")
