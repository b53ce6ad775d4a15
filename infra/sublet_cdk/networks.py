"""Networks in which a lease worker or a task would reach neither Kinesis nor DynamoDB: refused at synth, since AWS
deploys them, and each window or task then ends in a timeout."""

from __future__ import annotations

import json
from collections.abc import Sequence

import jsii
from aws_cdk import Annotations, Stack
from aws_cdk import aws_ec2 as ec2
from constructs import Construct, IValidation
from sublet.errors import SettingsError
from sublet.operate.rules.role_needs import reads_schemas
from sublet.settings import Settings
from sublet_cdk.failure_destination import Destination

OF_ANY = ("kinesis-streams", "dynamodb")
OF_A_TASK = ("logs", "ecr.api", "ecr.dkr", "s3")
"""What a task needs beside: for its log, and its image from a registry of your own."""


OF_METRICS = "monitoring"
OF_SCHEMAS = "glue"


def services_of(settings: Settings, *, to_cloudwatch: bool) -> tuple[str, ...]:
    """The services that these settings need beside. `to_cloudwatch`: metrics are sent there by OTLP."""
    return (*((OF_METRICS,) if to_cloudwatch else ()), *((OF_SCHEMAS,) if reads_schemas(settings) else ()))


def select(vpc: ec2.IVpc, of: ec2.SubnetSelection) -> ec2.SelectedSubnets:
    return vpc.select_subnets(
        availability_zones=of.availability_zones,
        one_per_az=of.one_per_az,
        subnet_filters=of.subnet_filters,
        subnet_group_name=of.subnet_group_name,
        subnets=of.subnets,
        subnet_type=of.subnet_type,
    )


def check_worker_network(
    scope: Construct,
    vpc: ec2.IVpc | None,
    subnets: ec2.SubnetSelection | None,
    destination: Destination | None,
    more: Sequence[str] = (),
) -> None:
    """`more`: other services that it must reach. Raises SettingsError for public subnets. Isolated ones of a network of
    the app are checked at synth, when all of its endpoints are known.
    """
    if vpc is None:
        return
    chosen = select(vpc, subnets or ec2.SubnetSelection())
    if chosen.has_public:
        raise SettingsError(
            "vpc_subnets",
            "public",
            "private subnets: Lambda gives a function no public address, so it would not reach Kinesis",
        )
    _check_isolated(scope, vpc, chosen, _needed(destination, *more))


def check_task_network(
    scope: Construct,
    vpc: ec2.IVpc,
    subnets: ec2.SubnetSelection | None,
    destination: Destination | None,
    *,
    has_public_address: bool,
    is_own_image: bool,
    more: Sequence[str] = (),
) -> None:
    """Raises SettingsError for public subnets without a public address, and for isolated ones of a network of the app
    with the public image of `handler_code`, which has no endpoint. Otherwise as for a worker."""
    by_default = ec2.SubnetSelection(subnet_type=ec2.SubnetType.PUBLIC) if has_public_address else None
    chosen = select(vpc, subnets or by_default or ec2.SubnetSelection())
    if chosen.has_public:
        if not has_public_address:
            raise SettingsError(
                "vpc_subnets",
                "public",
                "private subnets, or assign_public_ip=True: a task in a public subnet without a public address reaches "
                "neither Kinesis nor its image",
            )
        return
    if _are_closed(vpc, chosen) and not is_own_image:
        raise SettingsError(
            "handler_code",
            "in isolated subnets",
            "an image in a registry of your own (image=), since the public registry has no endpoint; or subnets with a "
            "NAT gateway",
        )
    _check_isolated(scope, vpc, chosen, _needed(destination, *OF_A_TASK, *more))


def _needed(destination: Destination | None, *more: str) -> Sequence[str]:
    """The services without which nothing works. An endpoint has the name of the destination's service."""
    return tuple(dict.fromkeys((*OF_ANY, *more, *((destination.service,) if destination else ()))))


def _are_closed(vpc: ec2.IVpc, chosen: ec2.SelectedSubnets) -> bool:
    """True if the network is the app's, and none of its chosen subnets has a route of its own out of it."""
    return isinstance(vpc, ec2.Vpc) and _are_isolated(vpc, chosen) and not any(map(_has_route, chosen.subnets))


def _are_isolated(vpc: ec2.IVpc, chosen: ec2.SelectedSubnets) -> bool:
    isolated = {subnet.node.path for subnet in vpc.isolated_subnets}
    return bool(chosen.subnets) and all(subnet.node.path in isolated for subnet in chosen.subnets)


def _has_route(subnet: ec2.ISubnet) -> bool:
    return any(isinstance(each, ec2.CfnRoute) for each in subnet.node.find_all())


def _check_isolated(scope: Construct, vpc: ec2.IVpc, chosen: ec2.SelectedSubnets, needed: Sequence[str]) -> None:
    if not _are_isolated(vpc, chosen):
        return
    if _are_closed(vpc, chosen):
        scope.node.add_validation(_Endpoints(scope, needed))
    elif not isinstance(vpc, ec2.Vpc):
        Annotations.of(scope).add_warning_v2(
            "sublet:isolated-subnets",
            f"the subnets are isolated. That works if the network has endpoints for {', '.join(needed)}, which cannot "
            "be seen from here.",
        )


@jsii.implements(IValidation)
class _Endpoints:
    """At synth, since endpoints may be added to the network until then. Every endpoint of the app counts."""

    def __init__(self, scope: Construct, needed: Sequence[str]) -> None:
        self._scope, self._needed = scope, needed

    def validate(self) -> list[str]:
        everything = self._scope.node.root.node.find_all()
        endpoints = [each for each in everything if isinstance(each, ec2.CfnVPCEndpoint)]
        names = [json.dumps(Stack.of(each).resolve(each.service_name)) for each in endpoints]
        missing = [name for name in self._needed if not any(f".{name}" in each for each in names)]
        if not missing:
            return []
        refused = SettingsError(
            "vpc_subnets",
            "isolated",
            f"subnets with a NAT gateway, or endpoints in the network for {', '.join(missing)}",
        )
        return [str(refused)]
