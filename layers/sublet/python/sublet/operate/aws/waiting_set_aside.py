"""What waits in a failure destination: how much, since when, when it is deleted, and the first batches."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError

from sublet.aws import clients
from sublet.aws.faults import code_of
from sublet.aws.set_aside.failure_destinations import set_aside_store
from sublet.aws.set_aside.sqs_messages import batch_in
from sublet.operate.aws.figures import CloudWatchFigures
from sublet.operate.rules.set_aside_waiting import SetAsideBatches, SetAsideWaiting
from sublet.ports import HeldBack, KeptBatch
from sublet.protocol.failure_document import OBJECT_SUFFIX, SetAsideBatch, application_of_key
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


def first_set_aside(arn: str, application: str, most: int, *, receives: bool) -> SetAsideBatches | None:
    """Reads the first batches of an application, `most` at most. Raises DestinationRefused and boto3's errors."""
    service, region, account, resource = arn.split(":", 5)[2:]
    if service == "sqs":
        return _batches(_received(region, account, resource, most), application, most) if receives else None
    store = set_aside_store(arn)
    if store is None:
        return None
    with closing(store.kept(application)) as kept:
        return _batches(kept, application, most)


def _received(region: str, account: str, name: str, most: int) -> Iterable[KeptBatch]:
    """Receives messages once, and hides none of them from others."""
    sqs: Any = clients.sqs_client(region)
    url = sqs.get_queue_url(QueueName=name, QueueOwnerAWSAccountId=account)["QueueUrl"]
    reply = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=most, VisibilityTimeout=0, WaitTimeSeconds=1)
    kept = [batch_in(each["Body"], each["MessageId"], each["ReceiptHandle"]) for each in reply.get("Messages", ())]
    return sorted(kept, key=lambda each: (each.batch is not None, each.batch and each.batch.place))


def _batches(kept: Iterable[KeptBatch | HeldBack], application: str, most: int) -> SetAsideBatches:
    batches: dict[str, SetAsideBatch] = {}
    unreadable: list[str] = []
    foreign = 0
    for each in kept:
        if isinstance(each, HeldBack):
            continue
        of = application_of_key(each.name) if each.batch is None else each.batch.application
        if of not in (None, application):
            foreign += 1
        elif each.batch is None:
            unreadable.append(each.problem)
        else:
            batches[each.batch.identity] = each.batch
        if len(batches) + len(unreadable) >= most:
            break
    return SetAsideBatches(tuple(batches.values()), tuple(unreadable), foreign)


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
