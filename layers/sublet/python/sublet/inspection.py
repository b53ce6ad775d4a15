"""The Inspection port: what AWS says about a stream's surroundings, for commands that an operator runs. Implemented in aws/
and memory/.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Protocol

from sublet.decisions.examination import (
    Executions,
    RegisteredConsumer,
    RingingAlarm,
    Throttled,
    Usage,
    Volume,
)
from sublet.decisions.last_hour import RecordedHour
from sublet.decisions.role_needs import DeployedRoles, Need
from sublet.decisions.set_aside_waiting import SetAsideWaiting


class Inspection(Protocol):
    """Read-only questions about one stream, its application and their account. Of an application of several streams, those about
    a stream go to `of_stream`. Each raises CheckRefused if this role may not ask it, or the service does not answer;
    AwsNotConfigured if no call can be made.
    """

    def of_stream(self, stream: str, arn: str) -> Inspection:
        """Asks the same questions about one stream of an application of several, with its name and ARN."""

    def incoming(self, over: timedelta) -> Volume:
        """What producers have written to the stream during the last `over`, by CloudWatch, which is some minutes late.
        Nothing if CloudWatch has no figures.
        """

    def incoming_by_shard(self, shard_ids: Sequence[str], over: timedelta) -> Mapping[str, Volume]:
        """What producers have written to each shard; empty if the stream has no shard-level metrics."""

    def last_hour(self) -> RecordedHour:
        """What the application's metrics say of the last hour, up to some minutes ago. One call, which CloudWatch charges for by
        the metric: 3 of them, $0.00003. Empty if it puts no metrics, as a Java KCL puts none of ours.
        """

    def throttled(self, over: timedelta) -> Throttled: ...

    def denied_reads(self, shard_id: str) -> Sequence[str]:
        """The Kinesis actions that reading this shard needs and this role lacks. Reads nothing if botocore knows
        Kinesis' DryRun; otherwise it reads one record, and drops it.
        """

    def denied_writes(self) -> Sequence[str]:
        """The DynamoDB actions that a consumer needs and this role lacks, each with its table. Tries writes whose
        condition cannot hold, so nothing is written.
        """

    def deployed_roles(self) -> DeployedRoles | None:
        """The roles of the application's functions, by its state machine; None if it has none, as it is not on Lambda."""

    def denied_to(self, role: str, needs: Sequence[Need]) -> Sequence[str]:
        """The actions that this role lacks, each with its resource, by IAM's simulation: of the role's own policies, its
        boundary and the organization's. Resources' own policies are not asked, and a condition that depends on the request counts
        as met.
        """

    def alarms(self) -> Sequence[RingingAlarm]:
        """All alarms of the account and region that are in ALARM."""

    def consumers(self) -> Sequence[RegisteredConsumer]:
        """All consumers that are registered with the stream, and whether each has subscribed in the last hour, by CloudWatch."""

    def executions(self) -> Executions | None:
        """The executions of the application's state machine; None if it has none. Counts a thousand at most."""

    def concurrency(self) -> Usage:
        """The account's concurrent Lambda executions: the most in the last hour, and the quota."""

    def set_aside(self, destination: str) -> SetAsideWaiting:
        """What a queue or folder keeps, by its ARN. A topic keeps nothing."""
