"""Looks at everything that `doctor` judges. If one question is refused, the others are still asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeVar

from sublet.decisions.manager.stream_adoption import ForeignLeaseEvidence, SuspectLease, other_streams_lease
from sublet.decisions.status.fleet_status import FleetStatus
from sublet.engine.manager.memory_sightings import MemorySightingStore
from sublet.errors import AwsNotConfigured, LeaseTableNotFound, StreamError, StreamNotAdopted, SubletError
from sublet.operate.inspection import Inspection
from sublet.operate.positions.seek import check_stream, opens
from sublet.operate.rules.doctor_account import concerning, topics
from sublet.operate.rules.examination import DeployedAlarm, Examination, Known, NotKnown, Subscribers, Volume
from sublet.operate.rules.role_needs import Runtime, needs_of
from sublet.operate.rules.set_aside_waiting import SetAsideBatches, SetAsideWaiting
from sublet.operate.status_watch import Watch
from sublet.ports import Ports
from sublet.ports.account import Account
from sublet.protocol.control import Control
from sublet.protocol.lease import LeaseScan
from sublet.protocol.shard import Shard
from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.stream_info import StreamDescription
from sublet.protocol.stream_key import own_id
from sublet.reading.several_streams import each_stream
from sublet.settings import Settings

T = TypeVar("T")

LATELY = timedelta(minutes=15)
"""The time over which the bytes that were written to a shard show whether it is hot."""
HOUR = timedelta(hours=1)
SHARDS_MAX = 1_000
"""For how many shards to ask for figures, since CloudWatch charges for each."""
SHOWN_MAX = 10
"""How many of the batches that were set aside are shown: as many as a queue returns at once."""


@dataclass(frozen=True, slots=True)
class Doctor:
    """Looks at one application.

    refused        what is wrong with the settings that were given, if others are used instead
    probes         ask each shard for its next record, so that its lag is known
    asks_writes    try the writes of a consumer
    role           the ARN of a process's role; None: look for the roles of the deployed functions
    to_cloudwatch  whether that process sends its metrics to CloudWatch; functions say it in their variables
    receives       look at what a queue keeps, which counts as a receive of each message
    """

    ports: Ports
    settings: Settings
    account: Account
    inspection: Inspection
    refused: str | None = None
    probes: bool = True
    asks_writes: bool = False
    role: str | None = None
    to_cloudwatch: bool = False
    receives: bool = False

    def examine_each(self) -> tuple[Examination, ...]:
        """Examines each stream of the application. It asks about the account and the application only once. Raises
        AwsNotConfigured.
        """
        streams = known(lambda: each_stream(self.settings, self.ports))
        if isinstance(streams, NotKnown) or not streams:
            return (self.examine(),)
        found: list[Examination] = []
        for settings, ports, key in streams:
            arn, inspection = settings.stream_arn, self.inspection
            of_one = inspection if key is None or arn is None else inspection.of_stream(settings.stream, arn)
            alone = replace(self, settings=settings, ports=ports, inspection=of_one)
            found.append(alone.examine(found[0] if found else None))
        return tuple(found)

    def examine(self, before_it: Examination | None = None) -> Examination:
        """Examines one stream. `before_it`: an earlier examination of another stream of the application, whose answers
        about the application and the account are used again. Raises AwsNotConfigured.
        """
        ports, inspection, settings = self.ports, self.inspection, self.settings
        before = ports.clock.now()
        description = known(ports.stream.describe)
        at = ports.clock.now()
        scan, shards = known(ports.table.scan), known(ports.stream.list_shards)
        control = known(self._control)
        return Examination(
            at=at,
            application=settings.application,
            stream=settings.stream,
            failover_time=settings.failover_time,
            refused=self.refused,
            scan=scan,
            shards=shards,
            info=known(lambda: self.account.info(settings.stream_arn or settings.stream)),
            description=description,
            skew=description if isinstance(description, NotKnown) else before + (at - before) / 2 - description.at,
            other_stream=self._other_stream(scan, shards),
            fleet=self._fleet(scan, description, control),
            incoming=known(lambda: inspection.incoming(LATELY)),
            by_shard=self._by_shard(shards),
            throttled=known(lambda: inspection.throttled(HOUR)),
            denied_reads=self._denied_reads(shards),
            denied_roles=self._denied_roles(description),
            consumers=known(inspection.consumers),
            control=control,
            **(self._of_all() if before_it is None else _answers_about_all(before_it)),
        )

    def _of_all(self) -> dict[str, Any]:
        """Returns the answers about the account and the application, by their fields."""
        inspection, on_failure = self.inspection, self.settings.on_failure
        alarms = known(inspection.alarms)
        waiting = None if on_failure is None else self._set_aside(on_failure)
        return {
            "denied_writes": known(inspection.denied_writes) if self.asks_writes else None,
            "alarms": alarms,
            "subscribers": self._subscribers(alarms),
            "limits": known(self.account.limits),
            "executions": known(inspection.executions),
            "concurrency": known(inspection.concurrency),
            "set_aside": waiting,
            "set_aside_batches": self._set_aside_batches(on_failure, waiting),
        }

    def _other_stream(self, scan: Known[LeaseScan], shards: Known[Sequence[Shard]]) -> Known[str | None]:
        if isinstance(scan, NotKnown):
            return scan
        if isinstance(shards, NotKnown):
            return shards
        try:
            remembered = known(self.ports.sightings.load)
            stream = None if isinstance(remembered, NotKnown) else remembered.stream
            found = check_stream(self.settings.application, stream, scan.leases, shards, self.ports)
            if found is not None and stream is None:
                self._ask_for_evidence(scan, shards, found.identity)
        except StreamNotAdopted as problem:
            return str(problem)
        except SubletError as problem:
            return NotKnown(str(problem))
        return None

    def _ask_for_evidence(self, scan: LeaseScan, shards: Sequence[Shard], found: StreamIdentity) -> None:
        """Asks Kinesis for one lease's position. It is not enough that no lease looks wrong, because the shards of
        streams that were created in the same second begin alike. Raises StreamNotAdopted, and StreamError if no lease
        has a position.
        """
        listed = {shard.shard_id for shard in shards}
        numeric = (lease for lease in scan.leases if lease.checkpoint.is_sequence_number and lease.shard_id in listed)
        lease = next(numeric, None)
        if lease is None:
            raise StreamError(
                "the lease table does not say which stream it belongs to, and nothing contradicts this stream"
            )
        if not opens(lease, self.ports):
            raise other_streams_lease(
                self.settings.application, SuspectLease(lease, ForeignLeaseEvidence.REFUSED), found
            )

    def _control(self) -> Control | None:
        try:
            return None if self.ports.control is None else self.ports.control.control()
        except LeaseTableNotFound:
            return None

    def _fleet(
        self, scan: Known[LeaseScan], description: Known[StreamDescription], control: Known[Control | None]
    ) -> Known[FleetStatus]:
        """Leaves out what is not known or does not exist: beside a table of KCL alone there are no sightings and no
        control.
        """
        if isinstance(scan, NotKnown):
            return scan
        retention = None if isinstance(description, NotKnown) else description.retention
        ports = self.ports
        if isinstance(known(ports.sightings.load), NotKnown):
            ports = replace(ports, sightings=MemorySightingStore())
        if control is None or isinstance(control, NotKnown):
            ports = replace(ports, control=None)
        return known(lambda: Watch(ports, self.settings, self.probes).look(retention))

    def _by_shard(self, shards: Known[Sequence[Shard]]) -> Known[Mapping[str, Volume]]:
        if isinstance(shards, NotKnown):
            return shards
        asked = {own_id(shard.shard_id): shard.shard_id for shard in shards if shard.is_open}
        ids = list(asked)[:SHARDS_MAX]
        found = known(lambda: self.inspection.incoming_by_shard(ids, LATELY))
        return found if isinstance(found, NotKnown) else {asked[own]: volume for own, volume in found.items()}

    def _denied_reads(self, shards: Known[Sequence[Shard]]) -> Known[Sequence[str]]:
        if isinstance(shards, NotKnown):
            return shards
        if not shards:
            return NotKnown("the stream has no shard to ask about")
        shard_id = next((shard.shard_id for shard in shards if shard.is_open), shards[0].shard_id)
        return known(lambda: self.inspection.denied_reads(own_id(shard_id)))

    def _denied_roles(self, description: Known[StreamDescription]) -> Known[Mapping[str, Sequence[str]] | None]:
        if isinstance(description, NotKnown):
            return description
        found = known(lambda: self._lacking(description.identity.arn))
        if isinstance(found, NotKnown):
            return NotKnown(f"{found.why}; the permissions above are those of these credentials")
        return found

    def _lacking(self, stream_arn: str) -> Mapping[str, Sequence[str]] | None:
        """Returns the missing permissions by role ARN. Both functions may have the same role."""
        asked: list[tuple[Runtime, str, str | None]]
        to_cloudwatch = self.to_cloudwatch
        if self.role is not None:
            asked = [(Runtime.PROCESS, self.role, None)]
        else:
            deployed = self.inspection.deployed_roles()
            if deployed is None:
                return None
            machine, to_cloudwatch = deployed.state_machine, deployed.sends_metrics
            asked = [(Runtime.MANAGER, deployed.manager, machine), (Runtime.WORKER, deployed.worker, None)]
        lacking: dict[str, list[str]] = {}
        for runtime, role, starts in asked:
            needs = needs_of(runtime, self.settings, stream_arn, starts, to_cloudwatch=to_cloudwatch)
            lacking.setdefault(role, []).extend(self.inspection.denied_to(role, needs))
        return lacking

    def _set_aside(self, destination: str) -> Known[SetAsideWaiting | None]:
        return known(lambda: self.inspection.set_aside(destination))

    def _set_aside_batches(
        self, destination: str | None, waiting: Known[SetAsideWaiting | None]
    ) -> SetAsideBatches | None:
        if destination is None or waiting is None or isinstance(waiting, NotKnown) or not waiting.batches:
            return None
        found = known(lambda: self.inspection.set_aside_batches(destination, SHOWN_MAX, receives=self.receives))
        return SetAsideBatches(problem=found.why) if isinstance(found, NotKnown) else found

    def _subscribers(self, alarms: Known[Sequence[DeployedAlarm]]) -> Known[Mapping[str, Subscribers]]:
        if isinstance(alarms, NotKnown):
            return alarms
        ours = concerning(alarms, self.settings.application, self.settings.stream)
        return known(lambda: {arn: self.inspection.subscribers(arn) for arn in topics(ours)})


ABOUT_ALL = (
    *("denied_writes", "alarms", "subscribers", "limits", "executions", "concurrency"),
    *("set_aside", "set_aside_batches"),
)


def _answers_about_all(examined: Examination) -> dict[str, Any]:
    return {name: getattr(examined, name) for name in ABOUT_ALL}


def known(ask: Callable[[], T]) -> Known[T]:
    """Returns the answer, or why there is none."""
    try:
        return ask()
    except AwsNotConfigured:
        raise
    except SubletError as problem:
        return NotKnown(str(problem))
