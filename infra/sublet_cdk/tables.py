"""A consumer's two tables: KCL's leases, and our sightings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from aws_cdk import RemovalPolicy, Token
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_kms as kms
from constructs import Construct
from sublet.errors import SettingsError
from sublet.settings import Settings
from sublet_cdk.nag import acknowledge
from sublet_cdk.places import check_table


@dataclass(frozen=True, slots=True)
class TableKeeping:
    """How the created tables are kept. `deletion_protection` is the lease table's.

    removal   of both: a stack that is removed takes neither from under another one, or a process, of the application
    key   of created tables, and of an existing one that does not know its own; None for DynamoDB's own
    """

    removal: RemovalPolicy
    deletion_protection: bool
    key: kms.IKey | None = None


@dataclass(frozen=True, slots=True)
class Tables:
    """`keys`: of both tables, without DynamoDB's own."""

    leases: dynamodb.ITable
    sightings: dynamodb.ITable
    keys: tuple[kms.IKey, ...]


def tables_of(
    scope: Construct,
    settings: Settings,
    stream: kinesis.IStream | None,
    keeping: TableKeeping,
    leases: dynamodb.ITable | None,
    sightings: dynamodb.ITable | None = None,
) -> Tables:
    """The existing tables, if they have the application's name and are where the stack is; otherwise new ones."""
    for name, existing, named in (
        ("lease_table", leases, settings.lease_table),
        ("sightings_table", sightings, settings.sightings_table),
    ):
        if existing is not None:
            _check_name(name, existing, named)
            check_table(scope, name, existing, stream)
    stated = (keeping.key, *(each.encryption_key for each in (leases, sightings) if each is not None))
    keys = {key.key_arn: key for key in stated if key is not None}
    key = next(iter(keys.values()), None)
    return Tables(
        leases or _lease_table(scope, settings, keeping, key),
        sightings or _sightings_table(scope, settings, keeping.removal, key),
        tuple(keys.values()),
    )


def _check_name(setting: str, existing: dynamodb.ITable, name: str) -> None:
    if not Token.is_unresolved(existing.table_name) and existing.table_name != name:
        raise SettingsError(setting, existing.table_name, f"the table named {name}, after the application")


def _lease_table(scope: Construct, settings: Settings, keeping: TableKeeping, key: kms.IKey | None) -> dynamodb.Table:
    table = dynamodb.Table(
        scope,
        "Leases",
        table_name=settings.lease_table,
        partition_key=dynamodb.Attribute(name="leaseKey", type=dynamodb.AttributeType.STRING),
        billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
        removal_policy=keeping.removal,
        deletion_protection=keeping.deletion_protection,
        **_encrypted(key),
    )
    # The L2 has two properties for it: newer CDKs deprecate one, older ones lack the other.
    recovery = dynamodb.CfnTable.PointInTimeRecoverySpecificationProperty(point_in_time_recovery_enabled=True)
    cast("dynamodb.CfnTable", table.node.default_child).point_in_time_recovery_specification = recovery
    return table


def _sightings_table(
    scope: Construct, settings: Settings, removal: RemovalPolicy, key: kms.IKey | None
) -> dynamodb.Table:
    table = dynamodb.Table(
        scope,
        "Sightings",
        table_name=settings.sightings_table,
        partition_key=dynamodb.Attribute(name="chunk", type=dynamodb.AttributeType.STRING),
        billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
        removal_policy=removal,
        **_encrypted(key),
    )
    acknowledge(table, "DDB3", "A tick rebuilds the sightings; recovering old ones would be of no use")
    return table


def _encrypted(key: kms.IKey | None) -> dict[str, Any]:
    if key is None:
        return {}
    return {"encryption": dynamodb.TableEncryption.CUSTOMER_MANAGED, "encryption_key": key}
