"""A consumer's failure destination: the setting `on_failure`, and the worker's permissions on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from aws_cdk import Token
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import IConstruct
from sublet.errors import SettingsError
from sublet.operate.rules.role_needs import SETS_ASIDE
from sublet_cdk import roles
from sublet_cdk.nag import acknowledge_wildcard

FailureDestination = sqs.IQueue | sns.ITopic | s3.IBucket | str
"""A construct, or an existing resource's ARN; a bucket's may have a /prefix."""

REDRIVES = {
    "sqs": [
        "sqs:ChangeMessageVisibility",
        "sqs:DeleteMessage",
        "sqs:GetQueueAttributes",
        "sqs:GetQueueUrl",
        "sqs:ReceiveMessage",
    ],
    "s3": ["s3:DeleteObject", "s3:GetObject"],
}
WITH_KEY = ["kms:Decrypt", "kms:GenerateDataKey"]
"""The permissions that a writer needs on the user's own key, if that encrypts the destination."""

STAND_INS = {
    "sqs": "arn:aws:sqs:us-east-1:123456789012:known-only-at-deployment",
    "sns": "arn:aws:sns:us-east-1:123456789012:known-only-at-deployment",
    "s3": "arn:aws:s3:::known-only-at-deployment",
}


@dataclass(frozen=True, slots=True)
class Destination:
    """A failure destination. `arn` is the setting, and may be a token; `key` encrypts it; `queue` is the construct, if
    given.
    """

    service: str
    arn: str
    key: kms.IKey | None = None
    queue: sqs.IQueue | None = None

    @property
    def checked_arn(self) -> str:
        """The ARN to validate the settings with: a stand-in if the real one is a token."""
        return STAND_INS[self.service] if Token.is_unresolved(self.arn) else self.arn

    def resource(self, application: str) -> str:
        """The resource that may be written: in a bucket, only the application's own folder."""
        return f"{self.arn.rstrip('/')}/{application}/*" if self.service == "s3" else self.arn

    def duties(self, application: str) -> dict[str, iam.PolicyStatement | None]:
        return {
            "on-failure": roles.allow(SETS_ASIDE[self.service], self.resource(application)),
            "on-failure-key": roles.allow(WITH_KEY, self.key.key_arn) if self.key else None,
        }

    def acknowledge(self, consumer: IConstruct, application: str) -> None:
        """Tells cdk-nag why `duties` contain a `*`. They are in the role, or in a policy of an existing one."""
        if self.service == "s3":
            why = "Each batch set aside is an object in the application's own folder"
            acknowledge_wildcard(consumer, self.resource(application), why)

    def grant_redrive(self, grantee: iam.IGrantable, application: str) -> None:
        """Grants what `sublet redrive` needs: reading set-aside records, and removing handled ones."""
        if self.service not in REDRIVES:
            raise SettingsError("on_failure", self.arn, "a queue or a bucket: a topic gives nothing back")
        roles.grant(grantee, REDRIVES[self.service], self.resource(application))
        if self.service == "s3":
            roles.grant(grantee, ["s3:ListBucket"], self.arn.partition("/")[0])
        if self.key is not None:
            roles.grant(grantee, ["kms:Decrypt"], self.key.key_arn)


def destination_of(given: FailureDestination | None, key: kms.IKey | None = None) -> Destination | None:
    """Reads what the construct was given. A string is validated like the setting. `key`: for a destination whose key is
    unknown.
    """
    if given is None:
        if key is not None:
            raise SettingsError("on_failure_key", key.key_arn, "the key of a destination: on_failure")
        return None
    if isinstance(given, str):
        return Destination(_service_of(given.split(":")), given, key)
    if (queue_arn := getattr(given, "queue_arn", None)) is not None:
        queue = cast("sqs.IQueue", given)
        return Destination("sqs", queue_arn, key or getattr(given, "encryption_master_key", None), queue)
    if (topic := getattr(given, "topic_arn", None)) is not None:
        return Destination("sns", topic, key or getattr(given, "master_key", None))
    if (bucket := getattr(given, "bucket_arn", None)) is not None:
        return Destination("s3", bucket, key or getattr(given, "encryption_key", None))
    raise SettingsError("on_failure", type(given).__name__, "a queue, a topic, a bucket, or the ARN of one")


def _service_of(parts: Sequence[str]) -> str:
    """Falls back to sqs; the settings refuse an ARN of any other service."""
    return parts[2] if len(parts) > 2 and parts[2] in STAND_INS else "sqs"
