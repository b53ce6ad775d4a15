"""cdk-nag's findings that are meant: each acknowledged where it arises, with its reason."""

from __future__ import annotations

from aws_cdk import Acknowledgment, Validations
from constructs import IConstruct

PACK = "AwsSolutions"


def acknowledge(construct: IConstruct, rule: str, reason: str) -> None:
    """`rule` without the pack's name: `SQS3`, `IAM5[Resource::*]`."""
    Validations.of(construct).acknowledge(Acknowledgment(id=f"{PACK}-{rule}", reason=reason))
