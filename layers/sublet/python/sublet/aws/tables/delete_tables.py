"""Deletes the tables of an application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sublet.aws.region_in_errors import in_region
from sublet.aws.tables.create_tables import PAUSE, Table, tables_of
from sublet.aws.tables.table_errors import named_table_errors, other_key
from sublet.errors import LeaseTableKeyUnexpected, LeaseTableNotFound
from sublet.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

GONE_WITHIN = 60
"""Attempts, two seconds apart."""


def delete_tables(client: DynamoDBClient, settings: Settings) -> None:
    """Deletes the lease table first. If this is interrupted, another call finishes it. The application's name may be
    that of an unrelated table, so both tables are checked to be a consumer's before either is deleted.
    """
    there = [table for table in tables_of(settings) if _is_there(client, table)]
    if not there:
        raise LeaseTableNotFound(
            f"there is no consumer {settings.application} {in_region(client.meta.region_name)}: it has no table"
        )
    for table in there:
        with named_table_errors(table.what, table.name, table.key):
            client.delete_table(TableName=table.name)
    for table in there:
        client.get_waiter("table_not_exists").wait(
            TableName=table.name,
            WaiterConfig={"Delay": int(PAUSE.total_seconds()), "MaxAttempts": GONE_WITHIN},
        )


def _is_there(client: DynamoDBClient, table: Table) -> bool:
    try:
        with named_table_errors(table.what, table.name, table.key):
            described = client.describe_table(TableName=table.name)["Table"]
    except LeaseTableNotFound:
        return False
    keys = [column["AttributeName"] for column in described["KeySchema"]]
    if keys != [table.key]:
        because = f"its key is {', '.join(keys)}"
        raise LeaseTableKeyUnexpected(other_key(table.what, table.name, table.key, because))
    return True
