"""The console's audit of changes: an item of the sightings table, which ticks ignore, since its key is not a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from sublet.aws.faults import CONDITION_FAILED, code_of
from sublet.aws.tables.sightings import DATA, KEY, ROUND, WHAT
from sublet.aws.tables.table_errors import named_table_errors
from sublet.errors import LeaseTableUnavailable
from sublet.operate.rules.change_audit import AuditEntry, decode_audit, encode_audit, with_entry

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

AUDIT = "console-audit"
TRIES = 10
"""How often an entry is written again, because other consoles have written in between."""


class DynamoDbChangeAudit:
    """See ChangeAudit. `connect` returns the client."""

    def __init__(self, connect: Callable[[], DynamoDBClient], table: str) -> None:
        self._connect = connect
        self._table = table

    def entries(self) -> tuple[AuditEntry, ...]:
        return self._read()[0]

    def keep(self, entry: AuditEntry) -> None:
        for _ in range(TRIES):
            entries, stored_round = self._read()
            if self._replace(with_entry(entries, entry), stored_round):
                return
        raise LeaseTableUnavailable(f"the audit in {self._table} was written by others {TRIES} times in a row")

    def _read(self) -> tuple[tuple[AuditEntry, ...], int]:
        """An item that cannot be read counts as empty, and is replaced: it must not prevent a change."""
        with named_table_errors(WHAT, self._table, KEY):
            item = self._connect().get_item(TableName=self._table, Key={KEY: {"S": AUDIT}}, ConsistentRead=True)
        if "Item" not in item:
            return (), 0
        found: Any = item["Item"]
        stored_round = int(found.get(ROUND, {}).get("N", "0"))
        try:
            return decode_audit(bytes(found[DATA]["B"])), stored_round
        except (KeyError, TypeError, ValueError):
            return (), stored_round

    def _replace(self, entries: tuple[AuditEntry, ...], stored_round: int) -> bool:
        arguments: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(#round)"}
        if stored_round:
            arguments = {
                "ConditionExpression": "#round = :round",
                "ExpressionAttributeValues": {":round": {"N": str(stored_round)}},
            }
        try:
            with named_table_errors(WHAT, self._table, KEY):
                self._connect().put_item(
                    TableName=self._table,
                    Item={
                        KEY: {"S": AUDIT},
                        DATA: {"B": encode_audit(entries)},
                        ROUND: {"N": str(stored_round + 1)},
                    },
                    ExpressionAttributeNames={"#round": ROUND},
                    **arguments,
                )
        except ClientError as error:
            if code_of(error) != CONDITION_FAILED:
                raise
            return False
        return True
