"""Adds the names of the created resources as stack outputs."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import CfnOutput
from constructs import Construct


def add_outputs(scope: Construct, names: Mapping[str, str]) -> None:
    for name, value in names.items():
        CfnOutput(scope, name, value=value)
