"""The LeaseTable port's promises, for every implementation."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from sublet.aws.clients import dynamodb_client
from sublet.aws.tables.lease_table import DynamoDbLeaseTable
from sublet.errors import LeaseTableKeyUnexpected, LeaseTableNotFound, LeaseTableUnavailable
from sublet.ports import Applied, LeaseTable, Refused
from sublet.protocol import lease_writes as writes
from sublet.protocol.checkpoint import LATEST, Checkpoint
from sublet.protocol.conditions import Row
from sublet.protocol.lease import Lease, MalformedRow
from sublet.protocol.lease_row import encode_row
from sublet.protocol.lease_writes import LeaseWrite
from sublet.protocol.shard import FULL_RANGE
from sublet.testing.memory import MemoryLeaseTable

from tests.contract.dynamodb_tables import EMULATORS, create_table, emulated_dynamodb
from tests.contract.scripted_service import ScriptedService
from tests.doubles.lease_write_cases import ACCEPTED, ACCEPTED_KINDS, FREE, HELD, ME, OTHER, REFUSED


@dataclass(frozen=True)
class Bench:
    """A table under test, and a way to put a row directly."""

    table: LeaseTable
    put_row: Callable[[Row], object]
    is_atomic: bool = True


def on_dynamodb(*, is_atomic: bool) -> Bench:
    client = dynamodb_client()
    name = create_table(client, f"app-{uuid.uuid4().hex[:8]}", "leaseKey")
    return Bench(
        DynamoDbLeaseTable(client, name),
        lambda row: client.put_item(TableName=name, Item=dict(row)),
        is_atomic,
    )


@pytest.fixture(params=["memory", *EMULATORS])
def bench(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Bench:
    if request.param == "memory":
        memory = MemoryLeaseTable()
        return Bench(memory, memory.put_row)
    emulated_dynamodb(request, monkeypatch)
    return on_dynamodb(is_atomic=request.param == "embedded")


WHOLE = replace(
    HELD,
    parent_shard_ids=frozenset({"shardId-000000000007", "shardId-000000000008"}),
    child_shard_ids=frozenset({"shardId-000000000009"}),
    hash_key_range=FULL_RANGE,
    checkpoint_owner=OTHER,
    pending_checkpoint_state=b"\x00\xffstate",
    throughput_kbps=12.5,
    other={
        "streamName": {"S": "1:s:2"},
        "theirs": {"M": {"bytes": {"B": b"\x01"}, "list": {"L": [{"B": b"\x02"}]}}},
    },
)


def test_an_empty_table(bench: Bench) -> None:
    assert bench.table.scan().leases == ()
    assert bench.table.get("shardId-000000000000") is None


def test_a_lease_is_read_as_it_was_created(bench: Bench) -> None:
    assert bench.table.apply(writes.create(WHOLE)) == Applied(WHOLE)
    assert bench.table.get(WHOLE.lease_key) == WHOLE
    assert bench.table.scan().leases == (WHOLE,)


@pytest.mark.parametrize(("make", "before", "expected"), ACCEPTED, ids=ACCEPTED_KINDS)
def test_an_accepted_write_returns_the_row_as_it_is_now(
    bench: Bench, make: Callable[[], LeaseWrite], before: Lease | None, expected: Lease | None
) -> None:
    write = make()
    if before is not None:
        bench.put_row(encode_row(before))
    assert bench.table.apply(write) == Applied(expected or before or HELD)
    assert bench.table.get(write.lease_key) == expected


@pytest.mark.parametrize(("make", "stands", "clause"), REFUSED)
def test_refused_write_returns_the_current_row(
    bench: Bench, make: Callable[[], LeaseWrite], stands: Lease, clause: str
) -> None:
    write = make()
    bench.put_row(encode_row(stands))
    assert bench.table.apply(write) == Refused(stands), clause
    assert bench.table.get(write.lease_key) == stands


@pytest.mark.parametrize("make", [make for make, before, _ in ACCEPTED if before], ids=lambda make: make.func.__name__)
def test_no_write_but_create_makes_a_row(bench: Bench, make: Callable[[], LeaseWrite]) -> None:
    write = make()
    assert bench.table.apply(write) == Refused(None)
    assert bench.table.get(write.lease_key) is None


def test_malformed_rows_are_reported_and_other_entities_skipped(bench: Bench) -> None:
    bench.put_row(encode_row(HELD))
    bench.put_row({"leaseKey": {"S": "broken"}, "checkpoint": {"S": "LATEST"}})
    bench.put_row({"leaseKey": {"S": "Leader"}, "entityType": {"S": "LEADER"}, "lut": {"N": "1"}})
    theirs = "123456789012:orders:1700000000:shardId-000000000001"
    bench.put_row(encode_row(HELD) | {"leaseKey": {"S": theirs}})
    scan = bench.table.scan()
    assert scan.leases == (HELD,)
    assert scan.multi_stream == (theirs,)
    assert [row.lease_key for row in scan.malformed] == ["broken"]
    assert isinstance(bench.table.get("broken"), MalformedRow)
    assert bench.table.get("Leader") is None


def test_a_malformed_row_that_refuses_is_shown(bench: Bench) -> None:
    bench.put_row({"leaseKey": {"S": HELD.lease_key}, "checkpoint": {"S": "LATEST"}})
    outcome = bench.table.apply(writes.heartbeat(HELD))
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.row, MalformedRow)


def test_a_row_that_became_malformed_elsewhere_cannot_be_held(bench: Bench) -> None:
    """The heartbeat's own condition holds, yet there is no lease to hold any more."""
    bench.put_row(encode_row(HELD) | {"checkpoint": {"S": "half way"}})
    outcome = bench.table.apply(writes.heartbeat(HELD))
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.row, MalformedRow)


def test_adding_to_an_attribute_that_is_no_number_is_refused(bench: Bench) -> None:
    """DynamoDB's ValidationException, which concerns the row and not our request."""
    bench.put_row(encode_row(FREE) | {"ownerSwitchesSinceCheckpoint": {"NULL": True}, "leaseOwner": {"S": OTHER}})
    seen = replace(FREE, lease_owner=OTHER).fence
    assert isinstance(bench.table.apply(writes.acquire(seen, ME, "item/1")), Refused)


def test_lease_is_acquired_by_one_of_many_concurrent_writers(bench: Bench) -> None:
    if not bench.is_atomic:
        pytest.skip("moto judges and writes in two steps, and is not safe for threads")
    bench.put_row(encode_row(FREE))
    racers = [writes.acquire(FREE.fence, ME, f"item/{n}") for n in range(8)]
    with ThreadPoolExecutor(len(racers)) as pool:
        outcomes = list(pool.map(bench.table.apply, racers))
    winners = [outcome.lease for outcome in outcomes if isinstance(outcome, Applied)]
    assert len(winners) == 1
    assert all(outcome == Refused(winners[0]) for outcome in outcomes if isinstance(outcome, Refused))


def test_a_scan_brings_every_page(bench: Bench) -> None:
    """More than DynamoDB's megabyte per page."""
    leases = [Lease(f"shardId-{n:012}", LATEST, other={"theirs": {"S": "x" * 60_000}}) for n in range(40)]
    for lease in leases:
        bench.put_row(encode_row(lease))
    assert sorted(bench.table.scan().leases, key=lambda lease: lease.lease_key) == leases


def test_a_scan_says_when_it_was_by_the_service_s_own_clock(bench: Bench) -> None:
    """Memory is not a service and has no clock. A server that stood still may tell the time of before."""
    before = datetime.now(UTC)
    at = bench.table.scan().at
    assert isinstance(bench.table, DynamoDbLeaseTable) == (at is not None)
    if at is not None:
        assert before - timedelta(minutes=1) <= at <= datetime.now(UTC)


@pytest.mark.emulator
class TestAnotherTable:
    """Errors that only a real table can produce."""

    pytestmark = pytest.mark.usefixtures("moto_aws")

    def test_no_such_table(self) -> None:
        table = DynamoDbLeaseTable(dynamodb_client(), "missing")
        for call in (table.scan, lambda: table.get("k"), lambda: table.apply(writes.create(HELD))):
            with pytest.raises(LeaseTableNotFound, match="no lease table missing"):
                call()

    def test_a_table_with_another_key(self) -> None:
        client = dynamodb_client()
        table = DynamoDbLeaseTable(client, create_table(client, "orders", "orderId"))
        late = writes.late_checkpoint(HELD, Checkpoint("9" * 60))
        for call in (
            lambda: table.get("k"),
            lambda: table.apply(writes.create(HELD)),
            lambda: table.apply(late),
        ):
            with pytest.raises(
                LeaseTableKeyUnexpected, match="table orders is not a lease table \\(with the key leaseKey"
            ):
                call()
        client.put_item(TableName="orders", Item={"orderId": {"S": "1"}})
        with pytest.raises(LeaseTableKeyUnexpected, match="a row has no leaseKey"):
            table.scan()


def test_get_reads_the_row_consistently(service: ScriptedService) -> None:
    """After a steal the row is read again for the late checkpoint in it; emulators are always consistent."""
    service.will("GetItem", {})
    assert DynamoDbLeaseTable(dynamodb_client(), "app").get("k") is None
    assert service.asked("GetItem")[0]["ConsistentRead"] is True


def test_an_endpoint_that_does_not_answer(monkeypatch: pytest.MonkeyPatch, closed_port: int) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", f"http://127.0.0.1:{closed_port}")
    table = DynamoDbLeaseTable(dynamodb_client(), "app")
    with pytest.raises(LeaseTableUnavailable, match="no reply about lease table app"):
        table.get("k")
