"""Checks the properties of the lease worker, or of a service; SettingsError names the wrong one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_lambda as lambda_
from sublet.errors import SettingsError
from sublet.settings import PREFIX, Settings
from sublet_cdk.functions import LAYERS_MAX, Network


def own_variables(variables: Mapping[str, str], name: str = "worker_environment") -> Mapping[str, str]:
    for variable, value in variables.items():
        if variable.startswith(PREFIX):
            raise SettingsError(name, variable, f"{value!r} as the construct's property; {PREFIX} is for settings")
    return variables


def own_layers(layers: Sequence[lambda_.ILayerVersion]) -> Sequence[lambda_.ILayerVersion]:
    most = LAYERS_MAX - 2
    if len(layers) > most:
        raise SettingsError("worker_layers", len(layers), f"at most {most}: a function has {LAYERS_MAX}")
    return layers


def network(
    vpc: ec2.IVpc | None,
    security_groups: Sequence[ec2.ISecurityGroup] | None,
    subnets: ec2.SubnetSelection | None,
) -> Network | None:
    if vpc is not None:
        return Network(vpc, security_groups, subnets)
    if security_groups or subnets:
        raise SettingsError("vpc", None, "the network of security_groups and vpc_subnets")
    return None


def check_memory(settings: Settings, memory: int, name: str = "worker_memory") -> None:
    """Refuses a worker whose memory is too small. For a moment, data in flight exists twice: as fetched and as records.
    The rest takes up to 192 MiB: Python and boto3, replies being read, and user records of ten leases (`make bench
    BENCH=memory`).
    """
    needed = 192 + -(-2 * settings.max_bytes_in_flight // 2**20)
    if memory < needed:
        raise SettingsError(
            name,
            memory,
            f"at least {needed} MiB: 192 and twice max_bytes_in_flight ({settings.max_bytes_in_flight:,})",
        )
