"""The example handlers, on moto's DynamoDB: records that come twice, late, or to a worker without its lease change
nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from sublet import Batch, Checkpoint, StreamRecord, UserRecord
from sublet.protocol.aggregation import aggregate
from sublet.testing import consume

from examples.flights import flights
from examples.latest_by_key import latest_by_key
from examples.print_records import print_records

SHARD = "shardId-000000000000"
AT = datetime(2026, 1, 31, tzinfo=UTC)


def record(sequence: int, data: dict[str, Any], key: str = "N1", sub: int = 0) -> UserRecord:
    body = json.dumps(data).encode()
    return UserRecord(body, key, sub, StreamRecord(str(sequence), body, key, AT))


def batch(records: Sequence[UserRecord]) -> tuple[Batch, list[UserRecord]]:
    """A batch, and the records that the handler gives as checkpoints."""
    given: list[UserRecord] = []

    def checkpoint(record: UserRecord) -> bool:
        given.append(record)
        return True

    return Batch("flights", SHARD, records, 0, checkpoint), given


def flight(sequence: int, number: int, key: str = "N1", sub: int = 0) -> UserRecord:
    fields = {"key": key, "number": number, "carrier": "UA", "departure_delay": 5, "arrival_delay": None}
    return record(sequence, fields, key, sub)


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in {
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "FLIGHTS_TABLE": "flights-by-shard",
        "LATEST_TABLE": "latest",
    }.items():
        monkeypatch.setenv(name, value)
    with mock_aws():
        flights._table.cache_clear()
        latest_by_key._table.cache_clear()
        for table, key in (("flights-by-shard", "shard_id"), ("latest", "key")):
            boto3.client("dynamodb").create_table(
                TableName=table,
                AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
                KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
                BillingMode="PAY_PER_REQUEST",
            )
        flights.lease_acquired(SHARD, Checkpoint("TRIM_HORIZON"))
        yield


def stored() -> flights.ShardTotals:
    row = boto3.resource("dynamodb").Table("flights-by-shard").get_item(Key={"shard_id": SHARD})["Item"]
    return flights.ShardTotals.from_row(row)


@pytest.mark.usefixtures("aws")
class TestFlights:
    FIRST = (flight(10, 1), flight(10, 1, "N2", sub=1), flight(11, 2))
    SECOND = (flight(12, 3),)

    def handle(self, *batches: Sequence[UserRecord]) -> None:
        for records in batches:
            flights.handle(batch(records)[0])

    def test_adds_up(self) -> None:
        self.handle(self.FIRST, self.SECOND)
        totals = stored()
        assert (totals.events, totals.redelivered, totals.out_of_order) == (4, 0, 0)
        assert totals.carriers == {"UA": [4, 4, 20, 0, 0]}
        assert totals.keys == {"N1": [[1, 3]], "N2": [[1, 1]]}
        assert totals.position == (12, 0)

    @pytest.mark.parametrize("is_new_process", [True, False])
    def test_a_batch_that_comes_twice_is_counted_once(self, is_new_process: bool) -> None:
        self.handle(self.FIRST, self.SECOND)
        if is_new_process:
            flights._stored.clear()
        self.handle(self.FIRST, (*self.SECOND, flight(13, 4)))
        totals = stored()
        assert (totals.events, totals.redelivered, totals.out_of_order) == (5, 4, 0)
        assert totals.carriers == {"UA": [5, 5, 25, 0, 0]}

    def test_a_batch_cut_within_an_aggregate_goes_on_after_the_cut(self) -> None:
        self.handle(self.FIRST[:1], self.FIRST)
        assert (stored().events, stored().redelivered) == (3, 1)

    def test_a_worker_that_lost_its_lease_writes_nothing_and_its_heir_loses_nothing(self) -> None:
        self.handle(self.FIRST)
        stale = flights._stored.pop(SHARD)
        self.handle((*self.SECOND, flight(13, 4)))
        flights._stored[SHARD] = stale
        with pytest.raises(ClientError, match="ConditionalCheckFailed"):
            self.handle(self.SECOND)
        self.handle(self.SECOND)  # the batch comes again, and the row is read again
        totals = stored()
        assert (totals.events, totals.redelivered, totals.out_of_order) == (5, 1, 0)

    def test_a_lease_that_comes_back_is_read_again(self) -> None:
        self.handle(self.FIRST)
        stale = flights._stored.pop(SHARD)
        self.handle(self.SECOND)
        flights._stored[SHARD] = stale
        flights.lease_acquired(SHARD, Checkpoint("12"))
        self.handle((flight(13, 4),))
        assert stored().events == 5


@pytest.mark.usefixtures("aws")
class TestLatestByKey:
    def data_of(self, key: str) -> object:
        item = boto3.resource("dynamodb").Table("latest").get_item(Key={"key": key})["Item"]
        return json.loads(bytes(item["data"]))  # type: ignore[arg-type]

    def test_each_keys_last_record_stays(self) -> None:
        latest_by_key.handle(batch([record(9, {"n": 1}), record(10, {"n": 2}), record(10, {"n": 3}, "N2", sub=1)])[0])
        assert self.data_of("N1") == {"n": 2}
        assert self.data_of("N2") == {"n": 3}

    def test_a_redelivered_record_does_not_replace_a_later_one(self) -> None:
        latest_by_key.handle(batch([record(10, {"n": 2}, sub=1)])[0])
        for earlier in (record(9, {"n": 1}), record(10, {"n": 1})):
            latest_by_key.handle(batch([earlier])[0])
        assert self.data_of("N1") == {"n": 2}

    def test_example_checkpoints_where_earlier_records_are_written_or_superseded(self) -> None:
        keys = [f"N{n}" for n in range(latest_by_key.CHECKPOINT_EVERY)]
        records = [record(1, {"n": 1}, "last"), *(record(2 + n, {"n": 2}, key) for n, key in enumerate(keys))]
        records.append(record(1_000, {"n": 3}, "last"))
        whole, given = batch(records)
        latest_by_key.handle(whole)
        assert [r.partition_key for r in given] == [keys[-1]]
        assert self.data_of("last") == {"n": 3}


def test_print_records_prints(capsys: pytest.CaptureFixture[str]) -> None:
    aggregated = aggregate([("k", None, b"a"), ("k", None, b"b")])
    done = consume(print_records, [("k", aggregated)])
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == [f"{SHARD}: acquired at TRIM_HORIZON", f"{SHARD}: 2 records, 0 ms behind the latest"]
    assert said[3] == f"  to   {done.checkpoints[SHARD]}: k b'b'"
    assert said[4:] == [f"{SHARD}: releasing"]
