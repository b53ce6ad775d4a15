"""The ControlStore port: one item of the sightings table, which ticks ignore, since its key is not a number."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from sublet.aws.faults import CONDITION_FAILED, code_of
from sublet.aws.kinesis.raw_json import service_date
from sublet.aws.tables.sightings import DATA, KEY, ROUND, WHAT
from sublet.aws.tables.table_errors import named_table_errors
from sublet.errors import ControlUnreadable
from sublet.protocol.control import NO_CONTROL, Control, decode_control, encode_control

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

CONTROL = "control"


class DynamoDbControlStore:
    """The ControlStore port. Each use calls `connect` for the client, so a short-lived worker that needs none never
    makes it.
    """

    def __init__(self, connect: Callable[[], DynamoDBClient], table: str) -> None:
        self._connect = connect
        self._table = table
        self._answered_at: datetime | None = None

    def control(self) -> Control:
        with named_table_errors(WHAT, self._table, KEY):
            item = self._connect().get_item(TableName=self._table, Key={KEY: {"S": CONTROL}}, ConsistentRead=True)
        self._answered_at = service_date(item)
        return NO_CONTROL if "Item" not in item else _read(item["Item"])

    @property
    def answered_at(self) -> datetime | None:
        return self._answered_at

    def keep_control(self, control: Control) -> bool:
        """A refusal by our own value is a success: the response was lost, and botocore repeated the call."""
        data = {"B": encode_control(control)}
        item: dict[str, Any] = {KEY: {"S": CONTROL}, DATA: data, ROUND: {"N": str(control.round + 1)}}
        stands = "#round = :round" if control.round else "attribute_not_exists(#round)"
        values: dict[str, Any] = {":round": {"N": str(control.round)}}
        arguments: dict[str, Any] = {"ExpressionAttributeValues": values} if control.round else {}
        try:
            with named_table_errors(WHAT, self._table, KEY):
                self._connect().put_item(
                    TableName=self._table,
                    Item=item,
                    ConditionExpression=stands,
                    ExpressionAttributeNames={"#round": ROUND},
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                    **arguments,
                )
        except ClientError as error:
            if code_of(error) != CONDITION_FAILED:
                raise
            reply: Any = error.response
            refused_by = reply.get("Item", {})
            return bool(refused_by.get(ROUND) == item[ROUND] and refused_by.get(DATA, {}).get("B") == data["B"])
        return True

    def replace_unreadable(self) -> None:
        try:
            self.control()
        except ControlUnreadable:
            with named_table_errors(WHAT, self._table, KEY):
                self._connect().delete_item(TableName=self._table, Key={KEY: {"S": CONTROL}})


def _read(item: Any) -> Control:
    try:
        data, stored_round = bytes(item[DATA]["B"]), int(item[ROUND]["N"])
    except (KeyError, TypeError, ValueError) as problem:
        raise ControlUnreadable(
            f"the application's control item lacks a column ({problem}); `sublet resume --force` replaces it"
        ) from None
    return decode_control(data, stored_round)
