"""Rows as kcl-rs wrote them (KCL 3 by other hands; kept by `python -m tests.mixed_fleet.golden_rows`), read and written back."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from sublet.protocol.checkpoint import AT_TIMESTAMP, LATEST, SHARD_END, TRIM_HORIZON
from sublet.protocol.lease import AttributeValue, Lease
from sublet.protocol.lease_row import decode_row, encode_row
from sublet.protocol.lease_writes import acquire, apply_to, checkpoint

FILE = Path(__file__).parents[2] / "data" / "kcl_rs_rows.json"
ROWS: dict[str, dict[str, AttributeValue]] = {
    kind: {
        name: {"B": base64.b64decode(value["B"])} if "B" in value else value for name, value in row.items()
    }
    for kind, row in json.loads(FILE.read_text()).items()
}


def lease_of(kind: str) -> Lease:
    lease = decode_row(ROWS[kind])
    assert isinstance(lease, Lease), lease
    return lease


@pytest.mark.parametrize("kind", ROWS)
def test_a_row_is_read_and_written_back_attribute_by_attribute(kind: str) -> None:
    assert encode_row(lease_of(kind)) == ROWS[kind]


@pytest.mark.parametrize("kind", ROWS)
def test_what_a_newer_kcl_adds_is_kept(kind: str) -> None:
    newer: dict[str, AttributeValue] = ROWS[kind] | {"addedLater": {"M": {"x": {"L": [{"N": "1"}]}}}}
    lease = decode_row(newer)
    assert isinstance(lease, Lease)
    assert encode_row(lease) == newer


@pytest.mark.parametrize("kind", sorted(ROWS.keys() - {"ended"}))
def test_our_acquire_and_checkpoint_leave_kcls_attributes_alone(kind: str) -> None:
    acquired = apply_to(acquire(lease_of(kind).fence, "sublet-1", "item/1"), ROWS[kind])
    assert acquired is not None
    mine = decode_row(acquired)
    assert isinstance(mine, Lease)
    position = type(mine.checkpoint)("9" * 56, 1)
    after = apply_to(checkpoint(mine, position), acquired)
    assert after is not None
    untouched = ROWS[kind].keys() - {
        "leaseOwner", "leaseCounter", "ownerSwitchesSinceCheckpoint", "checkpoint", "checkpointSubSequenceNumber",
        "pendingCheckpoint", "pendingCheckpointSubSequenceNumber", "pendingCheckpointState",
    }  # fmt: skip
    assert {name: after.get(name) for name in untouched} == {name: ROWS[kind][name] for name in untouched}


def test_each_kind_says_what_it_was_kept_for() -> None:
    assert lease_of("created").checkpoint == TRIM_HORIZON
    assert lease_of("latest").checkpoint == LATEST
    assert lease_of("at_timestamp").checkpoint == AT_TIMESTAMP
    assert lease_of("held").throughput_kbps
    assert lease_of("aggregated").checkpoint.sub_sequence_number > 0
    assert lease_of("pending").pending_checkpoint
    assert lease_of("ended").checkpoint == SHARD_END
    assert len(lease_of("ended").child_shard_ids) == 2
    assert lease_of("ended").lease_owner
    assert len(lease_of("child_of_a_split").parent_shard_ids) == 1
    assert len(lease_of("child_of_a_merge").parent_shard_ids) == 2


def test_kcl_rs_keeps_an_at_timestamp_leases_moment_where_java_does_which_is_nowhere() -> None:
    """Then the start position of our own settings holds. (Another Rust port writes it as the sub-sequence number.)"""
    row: dict[str, Any] = ROWS["at_timestamp"]
    assert row["checkpointSubSequenceNumber"] == {"N": "0"}
    assert lease_of("at_timestamp").start_at is None
