"""A consumer's two tables: KCL's leases, and our sightings."""

from __future__ import annotations

from typing import cast

from aws_cdk import RemovalPolicy, Token
from aws_cdk import aws_dynamodb as dynamodb
from constructs import Construct
from sublet.errors import SettingsError
from sublet.settings import Settings
from sublet_cdk.nag import acknowledge


def lease_table(
    scope: Construct,
    settings: Settings,
    existing: dynamodb.ITable | None,
    removal: RemovalPolicy,
    deletion_protection: bool,
) -> dynamodb.ITable:
    """The existing one, if it has the application's name; otherwise a new one, with KCL's key. `deletion_protection` is a new
    one's.
    """
    if existing is None:
        table = dynamodb.Table(
            scope,
            "Leases",
            table_name=settings.lease_table,
            partition_key=dynamodb.Attribute(name="leaseKey", type=dynamodb.AttributeType.STRING),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            removal_policy=removal,
            deletion_protection=deletion_protection,
        )
        # The L2 has two properties for it: one that newer CDKs deprecate, and one that older ones lack.
        recovery = dynamodb.CfnTable.PointInTimeRecoverySpecificationProperty(
            point_in_time_recovery_enabled=True
        )
        cast("dynamodb.CfnTable", table.node.default_child).point_in_time_recovery_specification = recovery
        return table
    if not Token.is_unresolved(existing.table_name) and existing.table_name != settings.lease_table:
        raise SettingsError(
            "lease_table",
            existing.table_name,
            f"the table named {settings.lease_table}, as the application is (KCL)",
        )
    return existing


def sightings_table(scope: Construct, settings: Settings) -> dynamodb.Table:
    table = dynamodb.Table(
        scope,
        "Sightings",
        table_name=settings.sightings_table,
        partition_key=dynamodb.Attribute(name="chunk", type=dynamodb.AttributeType.STRING),
        billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
        removal_policy=RemovalPolicy.DESTROY,
    )
    acknowledge(
        table, "DDB3", "Sightings are made anew within a tick; recovering old ones would be of no use"
    )
    return table
