"""What `doctor` looks at: the state of an application, of its stream and of its account at one moment, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias, TypeVar

from msgspec import Struct

from sublet.decisions.status.fleet_status import FleetStatus
from sublet.operate.rules.set_aside_waiting import SetAsideBatches, SetAsideWaiting
from sublet.protocol.control import Control
from sublet.protocol.lease import LeaseScan
from sublet.protocol.shard import Shard
from sublet.protocol.stream_info import AccountInfo, StreamDescription, StreamInfo

T = TypeVar("T")


class NotKnown(Struct, frozen=True):
    """A question that was not answered. `why`: one sentence, with the permission that is missing if one is."""

    why: str


Known: TypeAlias = T | NotKnown


class Volume(Struct, frozen=True):
    """Data written to a stream or a shard, on average."""

    bytes_per_second: float
    records_per_second: float


class ThrottledCounts(Struct, frozen=True):
    """Records that a stream has refused to take, and polls that it has refused, because a shard's limit was used up."""

    writes: int
    reads: int


class RegisteredConsumer(Struct, frozen=True):
    """A consumer of the stream by fan-out. `is_read`: it subscribed in the last hour; None if that is not known."""

    name: str
    arn: str
    registered_at: datetime
    is_read: bool | None = None


class DeployedAlarm(Struct, frozen=True):
    """A CloudWatch alarm.

    since     when it changed its state
    reason    CloudWatch's StateReason
    mentions  the values of its metrics' dimensions
    rings     it is in the state ALARM
    actions   the ARNs of what it notifies; a topic, mostly
    rule      of a composite alarm, which names other alarms
    """

    name: str
    since: datetime | None
    reason: str
    mentions: frozenset[str] = frozenset()
    rings: bool = True
    actions: tuple[str, ...] = ()
    rule: str = ""


class Subscribers(Struct, frozen=True):
    """The subscriptions of a topic. `pending`: those that wait for a click in the mail that AWS has sent. `is_shut`:
    the topic's key does not let CloudWatch publish.
    """

    confirmed: int
    pending: int = 0
    is_shut: bool = False


class Executions(Struct, frozen=True):
    """The executions of the lease workers' state machine. `running`: None if it is an Express one, which lists none.
    `failed_at`: when one last failed, timed out or was aborted; None if none is known to have.
    """

    running: int | None
    failed_at: datetime | None = None


class QuotaUsage(Struct, frozen=True):
    used: float
    limit: float

    @property
    def share(self) -> float:
        return self.used / self.limit if self.limit else 1.0


@dataclass(frozen=True, slots=True)
class Examination:
    """What `doctor` has found out.

    at             by this machine's clock
    refused        what is wrong with the settings; None if they are accepted
    skew           by how much this machine's clock is ahead of the service's
    other_stream   why the leases are not this stream's; None if they are
    fleet          how the shards stand
    by_shard       data written to each shard; empty if the stream has no shard-level metrics
    denied_reads   Kinesis actions that this role lacks
    denied_writes  DynamoDB actions that this role lacks, with their table; None: this was not asked
    denied_roles   what each of the application's own roles lacks, by its ARN; None: no role was given, and it is not on
                   Lambda
    subscribers    of the topics that the application's alarms notify
    executions     None: the application has no state machine, so it is not on Lambda
    control        what an operator has ordered; None: no table beside the lease table keeps it, as beside a KCL's own
    set_aside      None: no failure destination was given
    set_aside_batches  None: they were not looked at
    """

    at: datetime
    application: str
    stream: str
    failover_time: timedelta
    refused: str | None
    scan: Known[LeaseScan]
    shards: Known[Sequence[Shard]]
    info: Known[StreamInfo]
    description: Known[StreamDescription]
    skew: Known[timedelta]
    other_stream: Known[str | None]
    fleet: Known[FleetStatus]
    incoming: Known[Volume]
    by_shard: Known[Mapping[str, Volume]]
    throttled: Known[ThrottledCounts]
    denied_reads: Known[Sequence[str]]
    denied_writes: Known[Sequence[str] | None]
    denied_roles: Known[Mapping[str, Sequence[str]] | None]
    alarms: Known[Sequence[DeployedAlarm]]
    subscribers: Known[Mapping[str, Subscribers]]
    consumers: Known[Sequence[RegisteredConsumer]]
    limits: Known[AccountInfo]
    executions: Known[Executions | None]
    concurrency: Known[QuotaUsage]
    control: Known[Control | None]
    set_aside: Known[SetAsideWaiting | None]
    set_aside_batches: SetAsideBatches | None = None
