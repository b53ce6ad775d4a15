"""The LeaseTable port over boto3's low-level client, whose typed attribute values are what our rows consist of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec
from botocore.exceptions import ClientError
from msgspec.structs import replace

from sublet.aws.faults import CONDITION_FAILED, CONNECTION_FAILED, code_of
from sublet.aws.kinesis.raw_json import RAW, decode_binary, keep_raw_json, service_date
from sublet.aws.kinesis.repeated_call import RepeatedCall
from sublet.aws.tables.table_errors import named_table_errors, other_key
from sublet.aws.tables.write_request import write_request
from sublet.errors import LeaseTableKeyUnexpected
from sublet.ports import Applied, Refused
from sublet.protocol.lease import AttributeValue, Lease, LeaseScan, MalformedRow
from sublet.protocol.lease_attributes import LEASE_KEY
from sublet.protocol.lease_row import decode_row
from sublet.protocol.lease_writes import LeaseWrite, WriteKind
from sublet.protocol.table_scan import scan_of

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

WHAT = "lease table"


class DynamoDbLeaseTable:
    """The LeaseTable port. Thread-safe, as boto3's clients are.

    A write that succeeds on a row with another, malformed attribute returns Refused with that row: the write stands,
    but a lease with such a row cannot be held. `several`: see `scan_of`.
    """

    def __init__(self, client: DynamoDBClient, table: str, *, several: bool | None = False) -> None:
        # boto3's types declare each call's parameters as keywords; ours are made from a LeaseWrite.
        self._client: Any = client
        self._table = table
        self._several = several
        keep_raw_json(client, "Scan")
        self._update_again = RepeatedCall(client, "UpdateItem")

    def scan(self) -> LeaseScan:
        with self._named_errors():
            dates: list[datetime] = []
            scan = scan_of(map(self._with_key, self._items(dates)), several=self._several)
        return replace(scan, at=dates[-1] if dates else None)

    def _with_key(self, item: Mapping[str, AttributeValue]) -> Mapping[str, AttributeValue]:
        """Every row of a lease table has the key, so a row without it is not a damaged row: the table is another
        one.
        """
        if LEASE_KEY not in item:
            because = f"a row has no {LEASE_KEY}"
            raise LeaseTableKeyUnexpected(other_key(WHAT, self._table, LEASE_KEY, because))
        return item

    def get(self, lease_key: str) -> Lease | MalformedRow | None:
        with self._named_errors():
            reply = self._client.get_item(TableName=self._table, Key={LEASE_KEY: {"S": lease_key}}, ConsistentRead=True)
        return decode_row(reply["Item"]) if "Item" in reply else None

    def apply(self, write: LeaseWrite) -> Applied | Refused:
        with self._named_errors():
            try:
                row = self._write(write)
            except ClientError as error:
                if code_of(error) == CONDITION_FAILED:
                    item: Any = error.response.get("Item")
                    return Refused(decode_row(item) if item else None)
                if code_of(error) == "ValidationException" and "data type" in str(error):
                    return Refused(self.get(write.lease_key))  # ADD to an attribute that is not a number
                raise
        lease = decode_row(row)
        return Applied(lease) if isinstance(lease, Lease) else Refused(lease)

    def _write(self, write: LeaseWrite) -> Mapping[str, AttributeValue]:
        """The row after the write; for a delete, the row that was deleted."""
        request = {"TableName": self._table, **write_request(write)}
        match write.kind:
            case WriteKind.CREATE:
                self._client.put_item(**request)
                return write.sets
            case WriteKind.DELETE:
                deleted: Mapping[str, AttributeValue] = self._client.delete_item(**request)["Attributes"]
                return deleted
            case _:
                return self._updated(request)

    def _updated(self, request: Mapping[str, Any]) -> Mapping[str, AttributeValue]:
        """Repeats the write through botocore unless it plainly succeeded. As with any lost reply, the first write may
        have been carried out.
        """
        with suppress(*CONNECTION_FAILED, ValueError, LookupError):
            answer = self._update_again(request)
            if answer is not None and answer.is_good:
                return decode_binary(msgspec.json.decode(answer.body)["Attributes"])
        updated: Mapping[str, AttributeValue] = self._client.update_item(**request)["Attributes"]
        return updated

    def _items(self, dates: list[datetime]) -> Iterator[Mapping[str, AttributeValue]]:
        """Appends the service's time of each page to `dates`."""
        start: dict[str, Any] = {}
        while True:
            response = self._client.scan(TableName=self._table, **start)
            reply = response.get(RAW, response)
            if (date := service_date(response)) is not None:
                dates.append(date)
            yield from map(decode_binary, reply["Items"]) if RAW in response else reply["Items"]
            if "LastEvaluatedKey" not in reply:
                return
            start = {"ExclusiveStartKey": reply["LastEvaluatedKey"]}

    def _named_errors(self) -> AbstractContextManager[None]:
        return named_table_errors(WHAT, self._table, LEASE_KEY)
