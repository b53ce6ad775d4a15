"""The lease row, attribute by attribute, as Java writes it, as other clients write it, and as no client could have
written it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sublet.aws.tables.write_request import write_request
from sublet.protocol.checkpoint import AT_TIMESTAMP, LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from sublet.protocol.lag_history import LagSeen
from sublet.protocol.lag_report import LagReport
from sublet.protocol.lease import (
    AttemptedRecords,
    AttributeValue,
    Lease,
    LeaseScan,
    MalformedRow,
    Position,
    QuietUntil,
)
from sublet.protocol.lease_attributes import ROW_BYTES_MAX, bytes_of
from sublet.protocol.lease_row import decode_row, encode_row
from sublet.protocol.lease_writes import acquire, apply_to, heartbeat, set_children
from sublet.protocol.shard import FULL_RANGE, HASH_KEY_MAX
from sublet.protocol.table_scan import scan_of
from sublet.protocol.write_notes import SHORT_NAMES, SHORT_NUMBER, with_lag

SECOND = timedelta(seconds=1)

JAVA_2: dict[str, AttributeValue] = {
    "leaseKey": {"S": "shardId-000000000001"},
    "leaseOwner": {"S": "ip-10-0-0-1:8b8e"},
    "leaseCounter": {"N": "41"},
    "ownerSwitchesSinceCheckpoint": {"N": "1"},
    "checkpoint": {"S": "49655923345627486310519857136541063432187209412345167874"},
    "checkpointSubSequenceNumber": {"N": "2"},
    "parentShardId": {"SS": ["shardId-000000000000"]},
    "startingHashKey": {"S": "0"},
    "endingHashKey": {"S": str(HASH_KEY_MAX)},
}

JAVA_3: dict[str, AttributeValue] = {
    **JAVA_2,
    "childShardIds": {"SS": ["shardId-000000000002", "shardId-000000000003"]},
    "pendingCheckpoint": {"S": "49655923345627486310519857136541063432187209412345167880"},
    "pendingCheckpointSubSequenceNumber": {"N": "0"},
    "pendingCheckpointState": {"B": b"\x00state"},
    "throughputKBps": {"N": "12.500000"},
    "checkpointOwner": {"S": "ip-10-0-0-2:9f"},
    "entityType": {"S": "LEASE"},
}


def lease_of(row: dict[str, AttributeValue]) -> Lease:
    lease = decode_row(row)
    assert isinstance(lease, Lease), lease
    return lease


def test_a_row_of_kcl_2() -> None:
    assert lease_of(JAVA_2) == Lease(
        lease_key="shardId-000000000001",
        lease_owner="ip-10-0-0-1:8b8e",
        lease_counter=41,
        owner_switches_since_checkpoint=1,
        checkpoint=Checkpoint("49655923345627486310519857136541063432187209412345167874", 2),
        parent_shard_ids=frozenset({"shardId-000000000000"}),
        hash_key_range=FULL_RANGE,
    )


def test_a_row_of_kcl_3() -> None:
    lease = lease_of(JAVA_3)
    assert lease.child_shard_ids == {"shardId-000000000002", "shardId-000000000003"}
    assert lease.pending_checkpoint == Checkpoint("49655923345627486310519857136541063432187209412345167880")
    assert lease.pending_checkpoint_state == b"\x00state"
    assert lease.throughput_kbps == 12.5
    assert lease.actual_owner == lease.checkpoint_owner == "ip-10-0-0-2:9f"
    assert lease.other == {"entityType": {"S": "LEASE"}}


@pytest.mark.parametrize("row", [JAVA_2, JAVA_3])
def test_a_row_is_written_back_as_java_wrote_it(row: dict[str, AttributeValue]) -> None:
    assert encode_row(lease_of(row)) == row


def test_a_new_lease_has_kcls_required_attributes_and_no_empty_ones() -> None:
    assert encode_row(Lease("shardId-000000000000", AT_TIMESTAMP)) == {
        "leaseKey": {"S": "shardId-000000000000"},
        "leaseCounter": {"N": "0"},
        "ownerSwitchesSinceCheckpoint": {"N": "0"},
        "checkpoint": {"S": "AT_TIMESTAMP"},
        "checkpointSubSequenceNumber": {"N": "0"},
    }


@pytest.mark.parametrize("none", [None, {"NULL": True}, {"S": ""}])
def test_a_missing_null_or_empty_owner_is_no_owner(none: AttributeValue | None) -> None:
    row = {name: value for name, value in JAVA_2.items() if name != "leaseOwner"}
    if none is not None:
        row["leaseOwner"] = none
    assert lease_of(row).lease_owner is None


@pytest.mark.parametrize("missing", ["checkpointSubSequenceNumber", "ownerSwitchesSinceCheckpoint", "startingHashKey"])
def test_lease_row_decodes_without_optional_attributes(missing: str) -> None:
    lease = lease_of({name: value for name, value in JAVA_2.items() if name != missing})
    assert lease.checkpoint.sub_sequence_number in (0, 2)


def test_kcl_rusts_moment_in_the_sub_sequence_number_is_the_leases_start() -> None:
    row = JAVA_2 | {
        "checkpoint": {"S": "AT_TIMESTAMP"},
        "checkpointSubSequenceNumber": {"N": "1769846400123"},
    }
    lease = lease_of(row)
    assert lease.start_at == datetime(2026, 1, 31, 8, 0, 0, 123_000, tzinfo=UTC)
    assert lease.checkpoint == AT_TIMESTAMP
    assert encode_row(lease)["checkpointSubSequenceNumber"] == {"N": "1769846400123"}


def test_lease_at_a_timestamp_has_the_attribute_that_kcl_rust_reads() -> None:
    """It reads no attribute of ours; beside a real checkpoint the place within the record stays what it is."""
    at = datetime(2026, 1, 31, 8, 0, 0, 123_999, tzinfo=UTC)
    created = encode_row(Lease("shardId-0", AT_TIMESTAMP, start_at=at))
    assert created["checkpointSubSequenceNumber"] == created["subletStartAt"] == {"N": "1769846400123"}
    for checkpoint in (LATEST, Checkpoint("100")):
        pinned = encode_row(Lease("shardId-0", checkpoint, start_at=at))
        assert pinned["checkpointSubSequenceNumber"] == {"N": "0"}


@pytest.mark.parametrize(
    ("text", "attempts", "tried"),
    [
        ("3@50:2..61:7", 3, AttemptedRecords(Checkpoint("61", 7))),
        ("3@50:2..61", 3, AttemptedRecords(Checkpoint("61"))),
        ("3@50:2..61/4", 3, AttemptedRecords(Checkpoint("61"), lanes=4)),
        ("0@50:2..61", 0, AttemptedRecords(Checkpoint("61"))),  # narrowed down so far
        ("3@50:2", 3, None),  # as an earlier version has it
        ("3@50..61", 0, None),  # of another checkpoint
        ("3@50:2..", 0, None),
        ("3@50:2..garbage", 0, None),
    ],
)
def test_attempts_name_the_records_they_count(text: str, attempts: int, tried: AttemptedRecords | None) -> None:
    row = {**encode_row(Lease("k", Checkpoint("50", 2))), "subletAttempts": {"S": text}}
    lease = lease_of(row)
    assert (lease.attempts, lease.tried) == (attempts, tried)
    assert encode_row(lease).get("subletAttempts") == ({"S": text} if attempts or tried else None)


AT_8 = datetime(2026, 1, 31, 8, 0, tzinfo=UTC)
AT_9 = AT_8 + timedelta(hours=1)


@pytest.mark.parametrize(
    ("text", "lease", "until"),
    [
        ("1769850000000@50:2", Lease("k", Checkpoint("50", 2)), AT_9),
        ("1769850000000@50", Lease("k", Checkpoint("50")), AT_9),
        ("1769850000000@TRIM_HORIZON", Lease("k", TRIM_HORIZON), AT_9),
        ("1769850000000@LATEST/1769846400000", Lease("k", LATEST, start_at=AT_8), AT_9),
        # moved by somebody who knows nothing of it:
        ("1769850000000@50:2", Lease("k", Checkpoint("50", 1)), None),
        ("1769850000000@50", Lease("k", Checkpoint("49")), None),
        ("1769850000000@50", Lease("k", TRIM_HORIZON), None),
        ("1769850000000@LATEST/1769846400000", Lease("k", LATEST, start_at=AT_9), None),
        ("1769850000000@LATEST", Lease("k", LATEST, start_at=AT_8), None),
        ("1769850000000@LATEST/1769846400000", Lease("k", AT_TIMESTAMP, start_at=AT_8), None),
    ],
)
def test_a_shard_is_known_to_be_quiet_behind_the_very_position_that_is_named(
    text: str, lease: Lease, until: datetime | None
) -> None:
    row = {**encode_row(lease), "subletQuietUntil": {"S": text}}
    assert lease_of(row).quiet_until == until
    assert encode_row(lease_of(row)) == row


@pytest.mark.parametrize(
    "value",
    [
        {"S": ""},
        {"S": "1769850000000"},
        {"S": "@50"},
        {"S": "soon@50"},
        {"S": "1769850000000@x"},
        {"S": "-1@50"},
        {"S": "1769850000000@50:x"},
        {"S": "1769850000000@50/"},
        {"S": f"{10**15}@50"},
        {"N": "5"},
        {"NULL": True},
    ],
)
def test_a_foreign_value_says_nothing_of_quiet(value: AttributeValue) -> None:
    row = {**encode_row(Lease("k", Checkpoint("50"))), "subletQuietUntil": value}
    assert lease_of(row).quiet is None


REPORT = LagReport(AT_9, timedelta(milliseconds=2**32 - 1), AT_8, 999_999_999, 9_999_999.9)


SEEN = tuple(LagSeen(AT_8 + n * 61 * SECOND, timedelta(hours=30) + n * SECOND, AT_9) for n in range(10))


def test_the_last_reports_are_kept_as_they_were() -> None:
    mixed = (*SEEN[:4], LagSeen(AT_9, None, None), LagSeen(AT_9, timedelta(0), AT_8))
    row = encode_row(Lease("k", Checkpoint("50"), lag_history=mixed))
    assert decode_row(row) == Lease("k", Checkpoint("50"), lag_history=mixed)
    assert lease_of({**row, "subletSeen": {"S": "1;2,3"}}).lag_history == ()


def test_row_keeps_as_many_lag_reports_as_it_has_room_for() -> None:
    """Room that something else needs is made free."""
    lease = Lease("k", Checkpoint("4" * 56), 9, "o" * 150, holder="h" * 150, lag_history=SEEN)
    for length, kept in ((200, 10), (300, 5), (400, 0)):
        full = replace(lease, other={"theirs": {"S": "x" * length}})
        write = with_lag(heartbeat(full), full, REPORT, SEEN)
        after = lease_of(apply_to(write, encode_row(full)) or {})
        assert len(after.lag_history) == kept
        assert after.lag_report == REPORT


def test_a_row_with_all_that_is_ours_is_one_write_unit() -> None:
    """A kilobyte, names and values; numbers count half. Two parents and two children, and a KCL 3.x handoff under way.
    With attempts that name the last record that was tried, there is no room for the lag.
    """
    long = Checkpoint("4" * 56, 10_000)
    shards = frozenset(f"shardId-{n:012}" for n in range(2))
    row = encode_row(
        Lease(
            "shardId-000000000000",
            long,
            10**9,
            "orders-lambda-12",
            3,
            shards,
            shards,
            FULL_RANGE,
            AT_8,
            AT_8,
            QuietUntil(AT_9, Position(long)),
            REPORT,
            (),
            f"{'0' * 36}/{'0' * 36}",
            10**9,
            9,
            checkpoint_owner="orders-lambda-13",
            pending_checkpoint=long,
            pending_checkpoint_state=b"",
        )
    )
    lease = decode_row(row)
    assert isinstance(lease, Lease)
    assert lease.lag_report == REPORT
    assert bytes_of(row) <= ROW_BYTES_MAX
    tried = replace(lease, attempts=99, tried=AttemptedRecords(long, 10))
    assert "subletLag" in with_lag(heartbeat(lease), lease, REPORT).sets
    assert with_lag(heartbeat(tried), tried, REPORT).removes == ("subletLag", "subletSeen")
    assert bytes_of(encode_row(replace(tried, lag_report=None))) <= ROW_BYTES_MAX


def test_largest_unmeasured_row_has_room_for_a_lag_report() -> None:
    """The longest of those: without attempts, a pending checkpoint, attributes of others, and with names of so many
    bytes.
    """
    long, ids = Checkpoint("4" * SHORT_NUMBER, 10**17), frozenset(f"shardId-{n:012}" for n in range(2))
    lease = Lease(
        "shardId-000000000000",
        long,
        10**9,
        "o" * (SHORT_NAMES - 60),
        3,
        ids,
        ids,
        FULL_RANGE,
        AT_8,
        AT_8,
        QuietUntil(AT_9, Position(long)),
        None,
        (),
        "h" * 60,
        10**9,
        9,
        throughput_kbps=9999.123456,
    )
    said = with_lag(heartbeat(lease), lease, REPORT, SEEN).sets
    assert {"subletLag", "subletSeen"} <= said.keys()
    assert bytes_of({**encode_row(lease), **said}) <= 1024


@pytest.mark.parametrize(
    ("report", "text"),
    [
        (REPORT, "4294967295@1769850000000/1769846400000/999999999/9999999.90/44444444444444410000"),
        (LagReport(AT_9), "@1769850000000////44444444444444410000"),
        (LagReport(AT_9, timedelta(0)), "0@1769850000000////44444444444444410000"),
    ],
)
def test_lag_report_round_trips_through_the_row(report: LagReport, text: str) -> None:
    at = Checkpoint("4" * 56, 10_000)
    text = text.replace("44444444444444410000", str(at)[-20:])
    row = encode_row(Lease("k", at, lag_report=report))
    assert row["subletLag"] == {"S": text}
    assert decode_row(row) == Lease("k", at, lag_report=report)


@pytest.mark.parametrize("text", ["", "5", "-5@1////50", "5@1///50", "5@1////51", "5@1////50/", "5@x////50"])
def test_lag_report_of_another_checkpoint_or_form_is_none(text: str) -> None:
    row = {**encode_row(Lease("k", Checkpoint("50"))), "subletLag": {"S": text}}
    assert lease_of(row).lag_report is None


def test_lease_row_round_trips_with_our_attributes() -> None:
    at = datetime(2026, 1, 31, 8, 0, tzinfo=UTC)
    quiet = QuietUntil(at, Position(SHARD_END))
    lease = Lease("k", SHARD_END, start_at=at, caught_up_at=at, quiet=quiet, holder="item/attempt")
    row = encode_row(lease)
    assert {name: value for name, value in row.items() if name.startswith("sublet")} == {
        "subletStartAt": {"N": "1769846400000"},
        "subletCaughtUpAt": {"N": "1769846400000"},
        "subletQuietUntil": {"S": "1769846400000@SHARD_END"},
        "subletHolder": {"S": "item/attempt"},
    }
    assert decode_row(row) == lease


@pytest.mark.parametrize("entity", ["WORKER_METRIC_STATS", "LEADER", "STREAM", "ANYTHING_NEW"])
def test_rows_of_other_entities_are_no_leases_and_not_malformed(entity: str) -> None:
    assert decode_row({"leaseKey": {"S": "w"}, "entityType": {"S": entity}}) is None


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"leaseCounter": None}, "leaseCounter is missing"),
        ({"leaseCounter": {"S": "4"}}, "expected DynamoDB type N"),
        ({"leaseCounter": {"N": "4.5"}}, "expected a whole number"),
        ({"checkpoint": None}, "checkpoint is missing"),
        ({"checkpoint": {"S": "trim_horizon"}}, "'trim_horizon'"),
        ({"checkpoint": {"S": ""}}, "checkpoint ''"),
        ({"checkpointSubSequenceNumber": {"N": "-1"}}, "negative"),
        ({"parentShardId": {"S": "shardId-000000000000"}}, "expected DynamoDB type SS"),
        ({"endingHashKey": {"S": "ff"}}, "not a pair of decimal"),
        ({"endingHashKey": {"S": "9" * 39}}, "128-bit hash keys"),
        ({"startingHashKey": {"S": "5"}, "endingHashKey": {"S": "4"}}, "in order"),
        ({"subletCrashes": {"N": "-1"}}, "expected a count"),
        ({"subletCrashes": {"NULL": True}}, "expected a count"),
        ({"ownerSwitchesSinceCheckpoint": {"NULL": True}}, "expected a count"),
        (
            {"checkpoint": {"S": "AT_TIMESTAMP"}, "checkpointSubSequenceNumber": {"N": "1769846400123000"}},
            "expected epoch milliseconds",
        ),
        ({"entityType": {"S": "Lease"}}, "entityType is {'S': 'Lease'}, but it has a checkpoint"),
        ({"entityType": {"NULL": True}}, "entityType"),
        ({"pendingCheckpoint": {"S": "soon"}}, "'soon'"),
        ({"subletStartAt": {"N": "9" * 30}}, "expected epoch milliseconds"),
    ],
)
def test_a_row_that_kcl_could_not_have_written(broken: dict[str, AttributeValue | None], said: str) -> None:
    row = {name: value for name, value in (JAVA_2 | broken).items() if value is not None}
    problem = decode_row(row)
    assert isinstance(problem, MalformedRow)
    assert problem.lease_key == "shardId-000000000001"
    assert said in problem.problem


KEY_OF_SEVERAL = "123456789012:orders:1700000000:shardId-000000000001"
OF_SEVERAL: dict[str, AttributeValue] = JAVA_2 | {
    "leaseKey": {"S": KEY_OF_SEVERAL},
    "streamName": {"S": "123456789012:orders:1700000000"},
    "shardId": {"S": "shardId-000000000001"},
    "parentShardId": {"SS": ["shardId-000000000000"]},
}


def test_scan_separates_leases_of_one_and_of_several_streams() -> None:
    """Its key is no shard of ours: taken for garbage it would be deleted, and with it another stream's checkpoint."""
    ours, theirs = decode_row(JAVA_2), decode_row(OF_SEVERAL)
    assert isinstance(ours, Lease)
    assert isinstance(theirs, Lease)
    both = [OF_SEVERAL, JAVA_2]
    assert scan_of(both) == LeaseScan((ours,), multi_stream=(KEY_OF_SEVERAL,), other_kind=(theirs,))
    assert scan_of(both, several=True) == LeaseScan((theirs,), single_stream=(ours.lease_key,), other_kind=(ours,))


@pytest.mark.parametrize(("rows", "leases"), [([OF_SEVERAL], 1), ([OF_SEVERAL, JAVA_2], 1), ([], 0)])
def test_scan_tells_the_kind_of_application_by_its_rows(rows: list[dict[str, AttributeValue]], leases: int) -> None:
    scan = scan_of(rows, several=None)
    assert len(scan.leases) == leases
    assert not scan.single_stream


def test_row_of_several_streams_has_plain_parent_ids_and_a_lease_full_ones() -> None:
    lease = decode_row(OF_SEVERAL)
    assert isinstance(lease, Lease)
    assert lease.parent_shard_ids == {"123456789012:orders:1700000000:shardId-000000000000"}
    assert not {"streamName", "shardId"} & lease.other.keys()
    assert encode_row(lease) == OF_SEVERAL
    ending = apply_to(set_children(lease, frozenset({f"{KEY_OF_SEVERAL[:-1]}2"})), OF_SEVERAL)
    assert ending is not None
    assert ending["childShardIds"] == {"SS": ["shardId-000000000002"]}


def test_every_write_of_several_streams_names_stream_and_shard_as_kcl_does() -> None:
    """Also on a row that has lost them."""
    bare = {name: value for name, value in OF_SEVERAL.items() if name not in ("streamName", "shardId")}
    lease = decode_row(bare)
    assert isinstance(lease, Lease)
    after = apply_to(acquire(lease.fence, "app-lambda-0", "item/1"), bare)
    assert after is not None
    assert (after["streamName"], after["shardId"]) == (OF_SEVERAL["streamName"], OF_SEVERAL["shardId"])
    request = write_request(acquire(lease.fence, "app-lambda-0", "item/1"))
    assert {"streamName", "shardId"} <= set(request["ExpressionAttributeNames"].values())


def test_a_key_that_only_looks_like_a_multi_stream_one_is_malformed() -> None:
    problem = decode_row(JAVA_2 | {"leaseKey": {"S": "orders:shardId-000000000001"}})
    assert isinstance(problem, MalformedRow)
    assert "names no shard" in problem.problem
