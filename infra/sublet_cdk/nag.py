"""Acknowledges intended cdk-nag findings, each where it arises and with its reason."""

from __future__ import annotations

from typing import Any

import aws_cdk
from aws_cdk import Stack
from constructs import IConstruct

PACK = "AwsSolutions"
VALIDATIONS = getattr(aws_cdk, "Validations", None)
"""Newer than the oldest CDK that the constructs support, as is the cdk-nag that reads it; older ones need no
acknowledgement."""


def acknowledge(construct: IConstruct, rule: str, reason: str) -> None:
    """Acknowledges a finding on the construct, for users who run cdk-nag. `rule` is without the pack's name: `SQS3`,
    `IAM5[Resource::*]`."""
    if VALIDATIONS is not None:
        VALIDATIONS.of(construct).acknowledge(aws_cdk.Acknowledgment(id=f"{PACK}-{rule}", reason=reason))


def acknowledge_wildcard(construct: IConstruct, resource: str, reason: str) -> None:
    """Acknowledges that a role may use a resource with a `*`. Writes CDK's tokens in it as cdk-nag does."""
    acknowledge(construct, f"IAM5[Resource::{_named(Stack.of(construct).resolve(resource))}]", reason)


def _named(resolved: Any) -> str:
    match resolved:
        case {"Fn::Join": [str(between), list(parts)]}:
            return between.join(map(_named, parts))
        case {"Ref": name}:
            return f"<{name}>"
        case {"Fn::GetAtt": [name, attribute]}:
            return f"<{name}.{attribute}>"
        case _:
            return str(resolved)
