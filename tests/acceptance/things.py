"""The kinds of things that a run creates in an account: how each tells its tags, and how it is removed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from botocore.exceptions import ClientError

from infra.local.deploy import AwsToDeployTo

T = TypeVar("T")

AWAY = timedelta(days=7)
"""The shortest time that AWS keeps a key that is to be deleted."""
GONE = {
    "ResourceNotFoundException",
    "ValidationError",  # CloudFormation's
    "NotFoundException",
    "NoSuchBucket",
    "AWS.SimpleQueueService.NonExistentQueue",
    "QueueDoesNotExist",
}
"""AWS' errors for a missing thing."""
LOOKS_MAX, BETWEEN_LOOKS = 20, 3
"""How often, and how many seconds apart, to look for log groups that a last invocation has created again."""
UNTAGGED = {"NoSuchTagSet"}


@dataclass(frozen=True, slots=True)
class Stream:
    aws: AwsToDeployTo
    name: str

    @property
    def label(self) -> str:
        return f"stream {self.name}"

    def tags(self) -> Mapping[str, str] | None:
        kinesis = self.aws.client("kinesis")
        return _unless_gone(lambda: _by_key(kinesis.list_tags_for_stream(StreamName=self.name)["Tags"]))

    def remove(self) -> None:
        kinesis = self.aws.client("kinesis")
        with _gone_is_fine():
            kinesis.delete_stream(StreamName=self.name, EnforceConsumerDeletion=True)
            kinesis.get_waiter("stream_not_exists").wait(StreamName=self.name)


@dataclass(frozen=True, slots=True)
class Table:
    aws: AwsToDeployTo
    name: str

    @property
    def label(self) -> str:
        return f"table {self.name}"

    def tags(self) -> Mapping[str, str] | None:
        dynamodb = self.aws.client("dynamodb")

        def found() -> dict[str, str]:
            arn = dynamodb.describe_table(TableName=self.name)["Table"]["TableArn"]
            return _by_key(dynamodb.list_tags_of_resource(ResourceArn=arn)["Tags"])

        return _unless_gone(found)

    def remove(self) -> None:
        dynamodb = self.aws.client("dynamodb")
        with _gone_is_fine():
            dynamodb.get_waiter("table_exists").wait(TableName=self.name, WaiterConfig={"Delay": 2})
            dynamodb.delete_table(TableName=self.name)
            dynamodb.get_waiter("table_not_exists").wait(TableName=self.name, WaiterConfig={"Delay": 2})


@dataclass(frozen=True, slots=True)
class Queue:
    aws: AwsToDeployTo
    name: str

    @property
    def label(self) -> str:
        return f"queue {self.name}"

    @property
    def _url(self) -> str:
        url: str = self.aws.client("sqs").get_queue_url(QueueName=self.name)["QueueUrl"]
        return url

    def tags(self) -> Mapping[str, str] | None:
        return _unless_gone(lambda: dict(self.aws.client("sqs").list_queue_tags(QueueUrl=self._url).get("Tags", {})))

    def remove(self) -> None:
        with _gone_is_fine():
            self.aws.client("sqs").delete_queue(QueueUrl=self._url)


@dataclass(frozen=True, slots=True)
class Bucket:
    """Its objects are removed with it."""

    aws: AwsToDeployTo
    name: str

    @property
    def label(self) -> str:
        return f"bucket {self.name}"

    def tags(self) -> Mapping[str, str] | None:
        def found() -> dict[str, str]:
            try:
                return _by_key(self.aws.client("s3").get_bucket_tagging(Bucket=self.name)["TagSet"])
            except ClientError as problem:
                if _code(problem) in UNTAGGED:
                    return {}
                raise

        return _unless_gone(found)

    def remove(self) -> None:
        s3 = self.aws.client("s3")
        with _gone_is_fine():
            for page in s3.get_paginator("list_objects_v2").paginate(Bucket=self.name):
                for each in page.get("Contents", ()):
                    s3.delete_object(Bucket=self.name, Key=each["Key"])
            s3.delete_bucket(Bucket=self.name)


@dataclass(frozen=True, slots=True)
class Key:
    """A KMS key, which AWS deletes some days after it is told to. One that is to be deleted counts as gone."""

    aws: AwsToDeployTo
    id: str

    @property
    def label(self) -> str:
        return f"key {self.id} (AWS deletes it after {AWAY.days} days)"

    def tags(self) -> Mapping[str, str] | None:
        kms = self.aws.client("kms")

        def found() -> dict[str, str] | None:
            if kms.describe_key(KeyId=self.id)["KeyMetadata"]["KeyState"] == "PendingDeletion":
                return None
            return {each["TagKey"]: each["TagValue"] for each in kms.list_resource_tags(KeyId=self.id)["Tags"]}

        return _unless_gone(found)

    def remove(self) -> None:
        self.aws.client("kms").schedule_key_deletion(KeyId=self.id, PendingWindowInDays=AWAY.days)


@dataclass(frozen=True, slots=True)
class StackOfRun:
    """A CloudFormation stack, with the log groups of its own resources: a function that runs once more while the stack
    is deleted may create its group again.
    """

    aws: AwsToDeployTo
    name: str

    @property
    def label(self) -> str:
        return f"stack {self.name}"

    def tags(self) -> Mapping[str, str] | None:
        return _unless_gone(lambda: _by_key(self._described()["Tags"]))

    def remove(self) -> None:
        """A stack that is being updated cannot be deleted before the update has ended, one way or the other."""
        cloudformation = self.aws.client("cloudformation")
        with _gone_is_fine():
            while self._status().startswith("UPDATE") and "IN_PROGRESS" in self._status():
                time.sleep(5)
            groups = self._log_groups()
            cloudformation.delete_stack(StackName=self.name)
            cloudformation.get_waiter("stack_delete_complete").wait(
                StackName=self.name, WaiterConfig={"Delay": 2, "MaxAttempts": 450}
            )
            self._remove_log_groups(groups)

    def _remove_log_groups(self, names: Sequence[str]) -> None:
        """Until two looks in a row find none of them."""
        logs, quiet = self.aws.client("logs"), 0
        for look in range(LOOKS_MAX):
            time.sleep(BETWEEN_LOOKS if look else 0)
            removed = [name for name in names if _unless_gone(partial(logs.delete_log_group, logGroupName=name))]
            quiet = 0 if removed else quiet + 1
            if quiet == 2:
                return

    def _described(self) -> Mapping[str, Any]:
        stacks = self.aws.client("cloudformation").describe_stacks(StackName=self.name)["Stacks"]
        found: Mapping[str, Any] = stacks[0]
        return found

    def _status(self) -> str:
        return str(self._described()["StackStatus"])

    def _log_groups(self) -> list[str]:
        """Those that the stack created, and the ones that Lambda creates for its functions: by their whole names."""
        pages = self.aws.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=self.name)
        resources = [
            (each["ResourceType"], each["PhysicalResourceId"])
            for page in pages
            for each in page["StackResourceSummaries"]
            if each.get("PhysicalResourceId")
        ]
        created = [name for kind, name in resources if kind == "AWS::Logs::LogGroup"]
        return [*created, *(f"/aws/lambda/{name}" for kind, name in resources if kind == "AWS::Lambda::Function")]


def _by_key(tags: list[Mapping[str, str]]) -> dict[str, str]:
    return {each["Key"]: each["Value"] for each in tags}


def _code(problem: ClientError) -> str:
    return str(problem.response["Error"]["Code"])


def _unless_gone(ask: Callable[[], T | None]) -> T | None:
    try:
        return ask()
    except ClientError as problem:
        if _code(problem) not in GONE:
            raise
        return None


@contextmanager
def _gone_is_fine() -> Iterator[None]:
    try:
        yield
    except ClientError as problem:
        if _code(problem) not in GONE:
            raise
