"""Rows that 0.1 and 0.2 wrote, and our rows after they have written to them: attributes that may be stale are not
believed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease import AttributeValue, Lease
from sublet.protocol.lease_attributes import CRASHED_AT, CRASHES
from sublet.protocol.lease_row import decode_row, encode_row
from sublet.protocol.lease_writes import acquire, apply_to

from tests.rolling.rows import RECORDED, answers_of, rows
from tests.rolling.version import NoSuchVersion

Row = dict[str, AttributeValue]
DATA = Path(__file__).parents[2] / "data"
VERSIONS = ("0.1", "0.2")
ROWS: dict[str, dict[str, Row]] = {
    version: json.loads((DATA / f"sublet_{version.replace('.', '_')}_rows.json").read_text()) for version in VERSIONS
}
ALL = [(version, kind) for version in VERSIONS for kind in ROWS[version]]
BY_OLDER: Mapping[str, Any] = json.loads(RECORDED.read_text())
WRITES = [
    (version, name, kind)
    for version in VERSIONS
    for name in BY_OLDER[version]
    for kind in BY_OLDER[version][name]["writes"]
]
ELSEWHERE = "9" * 60


def lease_in(row: Row) -> Lease:
    lease = decode_row(row)
    assert isinstance(lease, Lease), lease
    return lease


def by_kcl(row: Row) -> Row:
    """KCL takes the lease, gets further, and leaves what it does not know."""
    counter = int(row["leaseCounter"]["N"]) + 2
    return {
        **row,
        "leaseOwner": {"S": "kcl-1"},
        "leaseCounter": {"N": str(counter)},
        "checkpoint": {"S": ELSEWHERE},
        "checkpointSubSequenceNumber": {"N": "0"},
    }


@pytest.mark.parametrize(("version", "kind"), ALL)
def test_a_row_of_theirs_loses_nothing_but_a_count_of_crashes_that_may_be_stale(version: str, kind: str) -> None:
    row = ROWS[version][kind]
    assert in_order(encode_row(lease_in(row))) == in_order(row)


@pytest.mark.parametrize(("version", "kind"), ALL)
def test_row_of_an_older_version_is_believed_only_about_its_checkpoint(version: str, kind: str) -> None:
    row = ROWS[version][kind]
    lease = lease_in(row)
    assert (lease.crashes, lease.quiet_until, lease.finished_ahead) == (0, None, None)
    names_it = row.get("subletAttempts", {}).get("S", "").partition("@")[2].startswith(str(lease.checkpoint))
    assert bool(lease.attempts) == names_it
    assert lease.is_ended == (lease.checkpoint.is_shard_end)


@pytest.mark.parametrize(("version", "kind"), [(v, kind) for v, kind in ALL if "ended" not in kind])
def test_row_of_an_older_version_is_not_believed_after_a_kcl_wrote(version: str, kind: str) -> None:
    lease = lease_in(by_kcl(ROWS[version][kind]))
    believed = (lease.crashes, lease.attempts, lease.tried, lease.quiet_until, lease.finished_ahead)
    assert believed == (0, 0, None, None, None)
    if lease.holder_counter is not None:
        assert lease.held_by is None


def test_recorded_rows_decode_to_their_states() -> None:
    for version in VERSIONS:
        kinds = {kind: lease_in(row) for kind, row in ROWS[version].items()}
        assert kinds["created"].lease_owner is None
        assert kinds["acquired"].held_by == kinds["acquired"].holder
        assert kinds["mid_aggregate"].checkpoint.sub_sequence_number > 0
        assert kinds["caught_up"].caught_up_at is not None
        assert kinds["released"].held_by is None
        assert (kinds["draining"].actual_owner or "").startswith("simulated")
        assert (kinds["handed_over"].held_by, kinds["handed_over"].checkpoint_owner) == (None, None)
        assert kinds["ended"].is_ended
        assert kinds["child"].parent_shard_ids
        assert kinds["pinned"].start_at is not None
    assert lease_in(ROWS["0.2"]["attempts"]).attempts == 2


@pytest.mark.parametrize(("version", "name", "kind"), WRITES)
def test_acquire_drops_our_attributes_that_an_older_version_outdated(version: str, name: str, kind: str) -> None:
    """Whatever they write, an owner of ours that comes next believes nothing that they may have made false."""
    left: Row = BY_OLDER[version][name]["writes"][kind]
    was, lease = lease_in(rows()[name]), lease_in(left)
    taken = lease_in(apply_to(acquire(lease.fence, "ours", "ours/1"), left) or {})
    assert taken.held_by == "ours/1"
    has_moved = lease.checkpoint != was.checkpoint
    assert taken.crashes == (0 if has_moved else was.crashes)
    assert taken.attempts == (0 if has_moved else was.attempts)
    assert taken.quiet_until == (None if has_moved else was.quiet_until)
    assert taken.finished_ahead is None, "they have written since, and may have handled it, or been told to once more"
    assert taken.caught_up_at == was.caught_up_at, "of any checkpoint since it is true as well"


@pytest.mark.parametrize("version", VERSIONS)
def test_older_versions_read_our_rows_correctly(version: str) -> None:
    for name, row in rows().items():
        ours, answer = lease_in(row), BY_OLDER[version][name]
        reads = answer["reads"]
        assert answer["loses_nothing"]
        assert (reads["checkpoint"], reads["owner"]) == (str(ours.checkpoint), ours.lease_owner)
        assert (reads["counter"], reads["holder"]) == (ours.lease_counter, ours.holder)
        known = (0, 0) if version == "0.1" else (ours.crashes, ours.attempts)
        assert (reads["crashes"], reads["attempts"]) == known


@pytest.mark.parametrize("version", VERSIONS)
def test_recorded_writes_equal_what_older_versions_write(version: str) -> None:
    try:
        answers = answers_of(version)
    except NoSuchVersion:
        pytest.skip("there is no history here to take that version from")
    assert answers == BY_OLDER[version]


def test_last_digits_tell_checkpoints_of_a_row_apart() -> None:
    """All that tells two checkpoints of a shard apart is in their last digits."""
    lease = Lease("shardId-000000000000", Checkpoint("4" * 56, 3), crashes=2)
    row = encode_row(lease)
    assert row[CRASHED_AT] == {"S": f"{'4' * 18}:3"}
    for other in (Checkpoint("4" * 56, 2), Checkpoint("4" * 55 + "6", 3), Checkpoint("TRIM_HORIZON")):
        moved = row | {"checkpoint": {"S": other.sequence_number}} | sub(other)
        assert lease_in(moved).crashes == 0
    assert lease_in(row).crashes == 2


def sub(checkpoint: Checkpoint) -> Row:
    return {"checkpointSubSequenceNumber": {"N": str(checkpoint.sub_sequence_number)}}


def in_order(row: Row) -> Row:
    return {
        name: {"SS": sorted(value["SS"])} if "SS" in value else value
        for name, value in row.items()
        if name not in (CRASHES, CRASHED_AT)
    }
