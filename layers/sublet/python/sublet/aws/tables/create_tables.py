"""Creates an application's missing tables, with the same properties as the stack's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from botocore.exceptions import ClientError, WaiterError

from sublet.aws.faults import code_of
from sublet.aws.region_in_errors import in_region
from sublet.aws.tables import sightings
from sublet.aws.tables.lease_table import WHAT as LEASE_TABLE
from sublet.aws.tables.table_errors import RESTORE, named_table_errors
from sublet.errors import LeaseTableNotFound, LeaseTableUnavailable
from sublet.ports import Signal
from sublet.protocol.lease_attributes import LEASE_KEY
from sublet.settings import Settings
from sublet.settings.value import TAG

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

ACTIVE_WITHIN = 60
"""Attempts, two seconds apart. A table takes about ten seconds."""

BACKED_UP_WITHIN = 15
"""Attempts, two seconds apart. DynamoDB prepares backups after the table has become active."""

PAUSE = timedelta(seconds=2)


class Table(NamedTuple):
    """`key` is its partition key, a string. A table that one tick can rebuild needs no backup."""

    what: str
    name: str
    key: str
    is_backed_up: bool


def tables_of(settings: Settings) -> tuple[Table, ...]:
    return (
        Table(LEASE_TABLE, settings.lease_table, LEASE_KEY, is_backed_up=True),
        Table(sightings.WHAT, settings.sightings_table, sightings.KEY, is_backed_up=False),
    )


def missing_tables(client: DynamoDBClient, settings: Settings) -> tuple[Table, ...]:
    """Checks every table before any is created: if one of them is refused, the others are not created either. A table
    that is still being created counts as missing.

    Raises LeaseTableKeyUnexpected if an unrelated table has the application's name.
    """
    return tuple(table for table in tables_of(settings) if not _is_there(client, table))


def _is_there(client: DynamoDBClient, table: Table) -> bool:
    """Uses only calls that a consumer may make. It may call neither DescribeTable nor, on the sightings table, GetItem,
    so an empty table with another key is not noticed.
    """
    try:
        with named_table_errors(table.what, table.name, table.key):
            if table.what == LEASE_TABLE:
                client.get_item(TableName=table.name, Key={table.key: {"S": "-"}})
            else:
                client.scan(TableName=table.name, Select="COUNT", Limit=1)
    except LeaseTableNotFound:
        return False
    return True


def require_tables(client: DynamoDBClient, settings: Settings) -> None:
    """Raises LeaseTableNotFound, but not for the sightings table of a fleet that has leases: it goes on without."""
    missing = missing_tables(client, settings)
    _, sighted = tables_of(settings)
    if missing == (sighted,) and has_leases(client, settings):
        return
    for table in missing:
        raise LeaseTableNotFound(
            f"there is no {table.what} {table.name} {in_region(client.meta.region_name)}; "
            "check the region (AWS_DEFAULT_REGION) and the account, or make it: Consumer.create(), "
            f"or `sublet run` without --no-create. {RESTORE}"
        )


def has_leases(client: DynamoDBClient, settings: Settings) -> bool:
    """Whether the lease table exists, and has a row."""
    leases, _ = tables_of(settings)
    try:
        with named_table_errors(leases.what, leases.name, leases.key):
            return client.scan(TableName=leases.name, Select="COUNT", Limit=1)["Count"] > 0
    except LeaseTableNotFound:
        return False


def make_sightings_table(client: DynamoDBClient, settings: Settings) -> None:
    """Does not wait until it is active. Raises ClientError."""
    _, sighted = tables_of(settings)
    _create(client, sighted, settings.application)


def create_tables(client: DynamoDBClient, settings: Settings, stop: Signal, say: Callable[[str], None]) -> None:
    """Create the missing tables and wait until they are active, also for those that another process is creating.

    Raises LeaseTableNotFound if the application has worked before: its lease table has then been deleted, and an
    empty one would start at start_position, which skips unhandled records or repeats all of them.
    """
    missing = missing_tables(client, settings)
    if _has_worked(client, settings, missing):
        raise LeaseTableNotFound(
            f"the lease table {settings.lease_table} is missing, although {settings.sightings_table} shows that the "
            f"application has worked before; no new one is created. {RESTORE}. To start "
            f"from there on purpose, delete {settings.sightings_table} too"
        )
    for table in missing:
        with named_table_errors(table.what, table.name, table.key):
            is_ours = _create(client, table, settings.application)
            _wait_until_active(client, table)
            if not is_ours:
                say(f"{table.what} {table.name}: another process has just created it")
            elif not table.is_backed_up:
                say(f"created {table.what} {table.name}, paid per request")
            elif problem := _back_up(client, table, stop):
                say(f"created {table.what} {table.name}, paid per request; no point-in-time recovery: {problem}")
            else:
                say(f"created {table.what} {table.name}, paid per request, with point-in-time recovery")


def _has_worked(client: DynamoDBClient, settings: Settings, missing: Sequence[Table]) -> bool:
    """Whether there are sightings but no lease table. Checks for the lease table again, because another process may
    have created both meanwhile.
    """
    leases, sighted = tables_of(settings)
    if leases not in missing or sighted in missing:
        return False
    with named_table_errors(sighted.what, sighted.name, sighted.key):
        count = client.scan(TableName=sighted.name, Select="COUNT", Limit=1)["Count"]
    return count > 0 and not _is_there(client, leases)


def _create(client: DynamoDBClient, table: Table, application: str) -> bool:
    """Creates the table. Returns False if another process is creating it."""
    try:
        client.create_table(
            TableName=table.name,
            KeySchema=[{"AttributeName": table.key, "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": table.key, "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
            Tags=[{"Key": TAG, "Value": application}],
        )
    except ClientError as error:
        if code_of(error) != "ResourceInUseException":
            raise
        return False
    return True


def _wait_until_active(client: DynamoDBClient, table: Table) -> None:
    try:
        client.get_waiter("table_exists").wait(
            TableName=table.name,
            WaiterConfig={"Delay": int(PAUSE.total_seconds()), "MaxAttempts": ACTIVE_WITHIN},
        )
    except WaiterError as late:
        raise LeaseTableUnavailable(f"{table.what} {table.name} is not active yet: {late}; try again") from late


def _back_up(client: DynamoDBClient, table: Table, stop: Signal) -> str | None:
    """Enables point-in-time recovery. Returns what prevented it, or None: a consumer works without backups, but its
    owner should know."""
    for _ in range(BACKED_UP_WITHIN):
        try:
            client.update_continuous_backups(
                TableName=table.name,
                PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True},
            )
        except ClientError as error:
            if code_of(error) != "ContinuousBackupsUnavailableException":
                return str(error)
        else:
            return None
        if stop.wait(PAUSE):
            return "stopped while DynamoDB was preparing it"
    return "DynamoDB is still preparing it; switch it on later"
