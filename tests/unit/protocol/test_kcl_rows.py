"""Rows as KCLs wrote them, read and written back.

Java's own are kept by `python -m tests.interop.golden_rows`, those of kcl-rs (KCL 3 by other hands) by
`python -m tests.mixed_fleet.golden_rows`.
"""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sublet.decisions.manager.shard_sync import plan_shard_sync
from sublet.decisions.session.shard_end import EndShard, plan_shard_end
from sublet.protocol.checkpoint import AT_TIMESTAMP, LATEST, SHARD_END, TRIM_HORIZON
from sublet.protocol.lease import AttributeValue, Lease
from sublet.protocol.lease_attributes import CRASHED_AT, CRASHES
from sublet.protocol.lease_row import decode_row, encode_row
from sublet.protocol.lease_writes import acquire, apply_to, checkpoint, create, end, set_children
from sublet.protocol.shard import HASH_KEY_MAX, ChildShard, HashKeyRange, Shard
from sublet.protocol.stream_key import StreamKey, stream_key_of
from sublet.protocol.worker_report import ReportPlace, client_version_in, decode_report, encode_report
from sublet.settings import StartKind, StartPosition

DATA = Path(__file__).parents[2] / "data"
OF_SEVERAL = ("kcl_2_several", "kcl_3_several")
"""With MultiStreamTracker, over two streams."""
WRITERS = ("kcl_2", "kcl_3", "kcl_rs", *OF_SEVERAL)
NO_LEASES = ("entity_", "side_table_")
"""Of KCL 3.x: in the lease table, and in tables of their own as long as that may go back to 2.x."""
Row = dict[str, AttributeValue]
ROWS: dict[str, dict[str, Row]] = {
    writer: {
        kind: {name: {"B": base64.b64decode(value["B"])} if "B" in value else value for name, value in row.items()}
        for kind, row in json.loads((DATA / f"{writer}_rows.json").read_text()).items()
    }
    for writer in WRITERS
}
LEASES = [(writer, kind) for writer in WRITERS for kind in ROWS[writer] if not kind.startswith(NO_LEASES)]
WRITTEN = {
    "leaseOwner",
    "leaseCounter",
    "ownerSwitchesSinceCheckpoint",
    "checkpoint",
    "checkpointSubSequenceNumber",
    "checkpointOwner",
    "pendingCheckpoint",
    "pendingCheckpointSubSequenceNumber",
    "pendingCheckpointState",
}
"""By an acquire, or by a checkpoint."""
ENTITIES = [kind for kind in ROWS["kcl_3"] if kind.startswith("entity_")]


def lease_of(writer: str, kind: str) -> Lease:
    lease = decode_row(ROWS[writer][kind])
    assert isinstance(lease, Lease), lease
    return lease


@pytest.mark.parametrize(("writer", "kind"), LEASES)
def test_a_row_is_read_and_written_back_attribute_by_attribute(writer: str, kind: str) -> None:
    assert in_order(encode_row(lease_of(writer, kind))) == in_order(ROWS[writer][kind])


@pytest.mark.parametrize(("writer", "kind"), LEASES)
def test_lease_row_keeps_attributes_of_a_newer_kcl(writer: str, kind: str) -> None:
    newer: Row = ROWS[writer][kind] | {"addedLater": {"M": {"x": {"L": [{"N": "1"}]}}}}
    lease = decode_row(newer)
    assert isinstance(lease, Lease)
    assert in_order(encode_row(lease)) == in_order(newer)


@pytest.mark.parametrize(("writer", "kind"), [(writer, kind) for writer, kind in LEASES if kind != "ended"])
def test_acquire_and_checkpoint_leave_kcls_attributes_alone(writer: str, kind: str) -> None:
    row = ROWS[writer][kind]
    acquired = apply_to(acquire(lease_of(writer, kind).fence, "sublet-1", "item/1"), row)
    assert acquired is not None
    mine = decode_row(acquired)
    assert isinstance(mine, Lease)
    position = type(mine.checkpoint)("9" * 56, 1)
    after = apply_to(checkpoint(mine, position), acquired)
    assert after is not None
    untouched = {name for name in row.keys() - WRITTEN if not name.startswith("sublet")}
    assert {name: after.get(name) for name in untouched} == {name: row[name] for name in untouched}


@pytest.mark.parametrize("writer", WRITERS)
def test_each_kind_says_what_it_was_kept_for(writer: str) -> None:
    assert lease_of(writer, "created").checkpoint == TRIM_HORIZON
    assert lease_of(writer, "latest").checkpoint == LATEST
    assert lease_of(writer, "at_timestamp").checkpoint == AT_TIMESTAMP
    assert lease_of(writer, "held").checkpoint.is_sequence_number
    assert lease_of(writer, "aggregated").checkpoint.sub_sequence_number > 0
    assert lease_of(writer, "pending").pending_checkpoint
    assert lease_of(writer, "ended").checkpoint == SHARD_END
    assert len(lease_of(writer, "ended").child_shard_ids) == 2
    assert lease_of(writer, "ended").lease_owner
    assert len(lease_of(writer, "child_of_a_split").parent_shard_ids) == 1
    assert len(lease_of(writer, "child_of_a_merge").parent_shard_ids) == 2


@pytest.mark.parametrize("kind", ROWS["kcl_3_several"])
@pytest.mark.parametrize("writer", OF_SEVERAL)
def test_a_row_of_several_streams_has_the_two_names_more(writer: str, kind: str) -> None:
    if kind not in ROWS[writer] or kind.startswith(NO_LEASES):
        assert not {"streamName", "shardId"} & ROWS[writer].get(kind, {}).keys()
        return
    row, lease = ROWS[writer][kind], lease_of(writer, kind)
    assert lease.lease_key == f"{row['streamName']['S']}:{row['shardId']['S']}"
    assert stream_key_of(lease.lease_key) == StreamKey.parse(row["streamName"]["S"])
    related = [*lease.parent_shard_ids, *lease.child_shard_ids]
    assert {stream_key_of(each) for each in related} <= {stream_key_of(lease.lease_key)}
    assert not {"streamName", "shardId"} & lease.other.keys()


JAVAS = ("kcl_2", "kcl_3", *OF_SEVERAL)


@pytest.mark.parametrize("writer", JAVAS)
@pytest.mark.parametrize("kind", ["created", "latest"])
def test_we_create_a_lease_of_a_listed_shard_as_java_does(writer: str, kind: str) -> None:
    theirs = lease_of(writer, kind)
    assert theirs.hash_key_range is not None
    start = StartPosition(StartKind(str(theirs.checkpoint)))
    whole = [
        Shard(theirs.lease_key, theirs.hash_key_range),
        *(Shard(f"{theirs.lease_key}{n}", keys) for n, keys in enumerate(around(theirs.hash_key_range))),
    ]
    ours = next(
        new.lease for new in plan_shard_sync([], [], whole, start).create if new.lease.lease_key == theirs.lease_key
    )
    assert in_order(dict(create(ours).all_sets)) == as_we_begin(ROWS[writer][kind])


@pytest.mark.parametrize("writer", JAVAS)
@pytest.mark.parametrize("kind", ["child_of_a_split", "child_of_a_merge"])
def test_we_create_a_child_as_java_does(writer: str, kind: str) -> None:
    theirs = lease_of(writer, kind)
    assert theirs.hash_key_range is not None
    child = ChildShard(theirs.lease_key, theirs.parent_shard_ids, theirs.hash_key_range)
    plan = plan_shard_end(Lease(min(theirs.parent_shard_ids), TRIM_HORIZON), [child], ())
    assert isinstance(plan, EndShard)
    (ours,) = plan.create
    assert in_order(dict(create(ours).all_sets)) == as_we_begin(ROWS[writer][kind])


@pytest.mark.parametrize("writer", JAVAS)
def test_shard_end_equals_javas_but_releases_the_owner(writer: str) -> None:
    theirs = ROWS[writer]["ended"]
    before = {name: value for name, value in theirs.items() if name != "childShardIds"}
    before |= {"checkpoint": {"S": "9" * 56}, "checkpointSubSequenceNumber": {"N": "0"}}
    held = decode_row(before)
    assert isinstance(held, Lease)
    named = apply_to(set_children(held, lease_of(writer, "ended").child_shard_ids), before)
    mine = decode_row(named or {})
    assert isinstance(mine, Lease)
    ended = apply_to(end(mine), named)
    assert ended is not None
    ours = {name: value for name, value in ended.items() if not name.startswith("sublet")}
    moves_on = {"leaseCounter", "leaseOwner"}
    assert in_order({name: value for name, value in ours.items() if name not in moves_on}) == in_order(
        {name: value for name, value in theirs.items() if name not in moves_on}
    )
    assert ours["leaseCounter"].keys() == {"N"}


@pytest.mark.parametrize("writer", ["kcl_2", "kcl_3", *OF_SEVERAL])
def test_java_leaves_our_holder_on_a_lease_it_takes(writer: str) -> None:
    """So that an owner of ours is told by the owner, and the holder says only which of its invocations."""
    taken = lease_of(writer, "taken_from_sublet")
    assert str(taken.lease_owner).startswith("kcl")
    assert taken.holder is not None


@pytest.mark.parametrize("writer", ["kcl_3", "kcl_3_several"])
def test_a_handoff_names_both_its_sides(writer: str) -> None:
    to_us, to_kcl = (lease_of(writer, f"handing_over_to_{side}") for side in ("sublet", "kcl"))
    assert (to_us.lease_owner, to_us.checkpoint_owner) == (to_kcl.checkpoint_owner, to_kcl.lease_owner)


@pytest.mark.parametrize("kind", ENTITIES)
def test_kcl_entity_that_is_no_lease_decodes_to_none(kind: str) -> None:
    assert decode_row(ROWS["kcl_3"][kind]) is None


def test_recorded_rows_of_kcl_3_include_its_other_entities() -> None:
    assert {"entity_LEADER", "entity_WORKER_METRIC_STATS", "entity_CLIENT_VERSION_MIGRATION"} <= set(ENTITIES)


def test_a_worker_reports_as_java_does() -> None:
    """Attribute by attribute, so that Java's leader takes ours for one of its workers'."""
    row = ROWS["kcl_3"]["entity_WORKER_METRIC_STATS"]
    report = decode_report(row, ReportPlace.LEASE_TABLE)
    assert report is not None
    assert encode_report(report) == row


def test_3_4_reports_in_a_table_of_its_own() -> None:
    row = ROWS["kcl_3"]["side_table_WorkerMetricStats_0"]
    report = decode_report(row, ReportPlace.OWN_TABLE)
    assert report is not None
    assert report.worker_id == row["wid"]["S"]


@pytest.mark.parametrize("kind", ["entity_CLIENT_VERSION_MIGRATION", "side_table_CoordinatorState_1"])
def test_the_fleets_version_is_read_from_javas_row(kind: str) -> None:
    assert client_version_in(ROWS["kcl_3"][kind]) == "CLIENT_VERSION_3X"


@pytest.mark.parametrize("writer", WRITERS)
def test_an_at_timestamp_leases_moment_is_kept_nowhere(writer: str) -> None:
    """Then the start position of our own settings holds. (Another Rust port writes it as the sub-sequence number.)"""
    row: dict[str, Any] = ROWS[writer]["at_timestamp"]
    assert row["checkpointSubSequenceNumber"] == {"N": "0"}
    assert lease_of(writer, "at_timestamp").start_at is None


def around(keys: HashKeyRange) -> list[HashKeyRange]:
    """The other hash keys: a sync of an empty table creates nothing while some are missing."""
    below = [HashKeyRange(0, keys.starting - 1)] if keys.starting else []
    return below + ([HashKeyRange(keys.ending + 1, HASH_KEY_MAX)] if keys.ending < HASH_KEY_MAX else [])


def as_we_begin(row: Row) -> Row:
    """Without what says that a row is a lease, which 3.x writes and does not need, and with a counter of zero."""
    kept = {name: value for name, value in row.items() if name != "entityType"}
    return in_order(kept | {"leaseCounter": {"N": "0"}, "ownerSwitchesSinceCheckpoint": {"N": "0"}})


def in_order(row: Row) -> Row:
    """Sets have no order, and DynamoDB's JSON shows them in one; it drops the zeros at a number's end. A count of
    crashes that is void, or that does not say of which checkpoint it is, is not written back as it was."""
    return {
        name: {"SS": sorted(value["SS"])}
        if "SS" in value
        else {"N": f"{Decimal(value['N']).normalize():f}"}
        if "N" in value
        else value
        for name, value in row.items()
        if name not in (CRASHES, CRASHED_AT)
    }
