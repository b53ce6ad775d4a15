"""cdk-nag's findings that are meant: each acknowledged where it arises, with its reason."""

from __future__ import annotations

from typing import Any

from aws_cdk import Acknowledgment, Stack, Validations
from constructs import IConstruct

PACK = "AwsSolutions"


def acknowledge(construct: IConstruct, rule: str, reason: str) -> None:
    """`rule` without the pack's name: `SQS3`, `IAM5[Resource::*]`."""
    Validations.of(construct).acknowledge(Acknowledgment(id=f"{PACK}-{rule}", reason=reason))


def acknowledge_wildcard(construct: IConstruct, resource: str, reason: str) -> None:
    """A resource with a `*` that a role may use. CDK's tokens in it are named as cdk-nag names them."""
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
