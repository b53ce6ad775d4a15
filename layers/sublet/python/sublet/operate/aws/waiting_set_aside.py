"""How much waits in a failure destination, since when, and when it is deleted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError

from sublet.aws import clients
from sublet.aws.faults import code_of
from sublet.operate.aws.figures import CloudWatchFigures
from sublet.operate.rules.set_aside_waiting import SetAsideWaiting
from sublet.protocol.failure_document import OBJECT_SUFFIX
from sublet.system.clock import SystemClock

DAY = timedelta(days=1)
QUEUE_COUNTS = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")


def waiting_set_aside(arn: str, figures: CloudWatchFigures) -> SetAsideWaiting:
    """Raises boto3's errors."""
    service, region, account, resource = arn.split(":", 5)[2:]
    if service == "sqs":
        return _in_queue(region, account, resource, figures)
    if service == "s3":
        bucket, _, prefix = resource.partition("/")
        return _in_folder(bucket, prefix.strip("/"))
    return SetAsideWaiting(0)


def _in_queue(region: str, account: str, name: str, figures: CloudWatchFigures) -> SetAsideWaiting:
    """SQS itself does not say how old its messages are: CloudWatch does."""
    sqs: Any = clients.sqs_client(region)
    url = sqs.get_queue_url(QueueName=name, QueueOwnerAWSAccountId=account)["QueueUrl"]
    names = [*QUEUE_COUNTS, "MessageRetentionPeriod"]
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    count = sum(int(attributes[each]) for each in QUEUE_COUNTS)
    age = figures.oldest_message(name, timedelta(minutes=30)) if count else None
    oldest = None if age is None else SystemClock().now() - age
    kept_for = timedelta(seconds=int(attributes.get("MessageRetentionPeriod", 0)))
    return SetAsideWaiting(count, oldest, None if oldest is None or not kept_for else oldest + kept_for)


def _in_folder(bucket: str, prefix: str) -> SetAsideWaiting:
    s3: Any = clients.s3_client()
    folder = f"{prefix}/" if prefix else ""
    kept: list[datetime] = [
        entry["LastModified"].astimezone(UTC)
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=folder)
        for entry in page.get("Contents", ())
        if entry["Key"].endswith(OBJECT_SUFFIX)
    ]
    oldest = min(kept, default=None)
    expires = _expires_after(s3, bucket, folder) if kept else None
    return SetAsideWaiting(len(kept), oldest, None if oldest is None or expires is None else oldest + expires)


def _expires_after(s3: Any, bucket: str, folder: str) -> timedelta | None:
    """When the bucket's lifecycle rules delete objects; None if none deletes this folder's, or they may not be read."""
    try:
        rules = s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    except ClientError as error:
        if code_of(error) in ("NoSuchLifecycleConfiguration", "AccessDenied"):
            return None
        raise
    days = [
        rule["Expiration"]["Days"]
        for rule in rules
        if rule["Status"] == "Enabled" and "Days" in rule.get("Expiration", {}) and folder.startswith(_prefix_of(rule))
    ]
    return DAY * min(days) if days else None


def _prefix_of(rule: Any) -> str:
    """The prefix by which a lifecycle rule selects objects. A rule may also select by tags or sizes and spare these
    objects. It counts all the same: a warning too many is better than one too few.
    """
    chosen = rule.get("Filter", {})
    prefix = chosen.get("Prefix", chosen.get("And", {}).get("Prefix", rule.get("Prefix", "")))
    return str(prefix)
