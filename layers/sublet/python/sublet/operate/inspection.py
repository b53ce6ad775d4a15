"""The Inspection port: what AWS says about a stream's surroundings, for commands that an operator runs. Implemented in
aws/ and memory/.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from sublet.operate.rules.examination import (
    DeployedAlarm,
    Executions,
    QuotaUsage,
    RegisteredConsumer,
    Subscribers,
    ThrottledCounts,
    Volume,
)
from sublet.operate.rules.last_hour import RecordedHour
from sublet.operate.rules.role_needs import DeployedRoles, PermissionNeed
from sublet.operate.rules.set_aside_waiting import SetAsideBatches, SetAsideWaiting


class Inspection(Protocol):
    """Looks up facts about one stream, its application and their account, and changes nothing. If the application reads
    several streams, `of_stream` answers for each of them. Every method raises CheckRefused if this role lacks the
    permission or the service does not answer, and AwsNotConfigured if no call can be made.
    """

    def of_stream(self, stream: str, arn: str) -> Inspection:
        """The inspection of one stream, by name and ARN, of an application that reads several."""

    def incoming(self, over: timedelta) -> Volume:
        """What producers have written to the stream during the last `over`, according to CloudWatch, whose figures are
        some minutes late. Zero if CloudWatch has no figures.
        """

    def incoming_by_shard(self, shard_ids: Sequence[str], over: timedelta) -> Mapping[str, Volume]:
        """What producers have written to each shard; empty if the stream has no shard-level metrics."""

    def last_hour(self) -> RecordedHour:
        """The application's own metrics of the last hour, up to some minutes ago. Makes one call, for which CloudWatch
        charges by the metric: 3 of them, $0.00003. Empty if the application puts none of sublet's metrics, as a Java
        KCL does not.
        """

    def lags(
        self, over: timedelta, each: timedelta, lease_key: str | None = None, stream: str | None = None
    ) -> Mapping[datetime, timedelta]:
        """The worst lag, that of a shard, or that of one of several streams, within each `each` of the last `over`, up
        to some minutes ago: by the beginning of each, without those that have no figure. Makes one call for one metric.
        Empty if the application puts no such metric.
        """

    def throttled(self, over: timedelta) -> ThrottledCounts: ...

    def denied_reads(self, shard_id: str) -> Sequence[str]:
        """The Kinesis actions that reading this shard needs and this role lacks. Reads nothing if botocore knows
        Kinesis' DryRun; otherwise it reads one record, and drops it.
        """

    def denied_writes(self) -> Sequence[str]:
        """The DynamoDB actions that a consumer needs and this role lacks, each with its table. Tries writes whose
        condition cannot hold, so nothing is written.
        """

    def deployed_roles(self) -> DeployedRoles | None:
        """The roles of the application's Lambda functions, found through its state machine. None if there is no state
        machine, because the application does not run on Lambda.
        """

    def denied_to(self, role: str, needs: Sequence[PermissionNeed]) -> Sequence[str]:
        """The actions that the role lacks, each with its resource, according to IAM's policy simulator. It evaluates
        the role's own policies, its permissions boundary and the organization's policies, but not the policies of
        resources. A condition that depends on the request counts as met.
        """

    def alarms(self) -> Sequence[DeployedAlarm]:
        """All alarms of the account and region."""

    def subscribers(self, topic_arn: str) -> Subscribers: ...

    def consumers(self) -> Sequence[RegisteredConsumer]:
        """All consumers that are registered with the stream, and whether each has subscribed in the last hour,
        according to CloudWatch.
        """

    def executions(self) -> Executions | None:
        """The executions of the application's state machine; None if it has none. Counts a thousand at most."""

    def concurrency(self) -> QuotaUsage:
        """The account's concurrent Lambda executions: the most in the last hour, and the quota."""

    def set_aside(self, destination: str) -> SetAsideWaiting:
        """How much the queue or S3 folder with this ARN holds. A topic holds nothing."""

    def set_aside_batches(self, destination: str, most: int, *, receives: bool) -> SetAsideBatches | None:
        """The first batches of the application in it. None for a queue without `receives`, since SQS counts each look
        as a receive: a dead-letter queue takes what is received too often, and the age of a message that was received
        three times is in no metric any more. Hides nothing from others.
        """
