"""The options of one query, as a value; `option_table` parses them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any

from sublet.aws.service_access import Role, ServiceAccess
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.stream_key import StreamKey, stream_key_of
from sublet.settings import HashRangeFilter, Mode, Settings, StartPosition, StreamChoice
from sublet.spark.stream_option import several_streams

HEARTBEATS_PER_FAILOVER = 3


class Leases(StrEnum):
    """How the query uses an application's lease table."""

    NONE = "none"
    FOLLOW = "follow"
    HOLD = "hold"


class UseOfLeases(StrEnum):
    STREAM = "readStream"
    BATCH = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of one query, parsed. Names are Spark's in snake case; see `option_table.OPTIONS` for their meaning.

    stream   the stream's name, or the text of `streams`
    """

    stream: str
    stream_arn: str | None
    region: str | None
    endpoint_url: str | None
    profile: str | None
    role_arn: str | None
    role_external_id: str | None = field(repr=False)
    role_session_name: str | None
    sts_endpoint_url: str | None
    lease_region: str | None
    lease_endpoint_url: str | None
    lease_profile: str | None
    lease_role_arn: str | None
    start_position: StartPosition
    end_position: StartPosition | None
    start_checkpoints: Mapping[str, Checkpoint] | None
    end_checkpoints: Mapping[str, Checkpoint] | None
    hash_range_filter: HashRangeFilter
    fail_on_data_loss: bool
    max_span_per_trigger: timedelta | None
    max_records_per_trigger: int | None
    max_bytes_per_trigger: int | None
    max_partitions: int | None
    application: str | None
    leases: Leases
    failover_time: timedelta
    checkpoint_location: str | None
    aggregate: bool
    available_now: bool
    list_interval: timedelta
    stream_discovery_interval: timedelta
    patience: timedelta
    gives_start: bool = False
    """The user has given `startPosition`, even if it is the default."""

    @property
    def streams(self) -> StreamChoice | None:
        """None if the query reads one stream."""
        return several_streams(self.stream)

    def of_stream(self, stream: StreamKey | None, arn: str | None, start: StartPosition | None = None) -> Options:
        """Returns the options as if the query read only this one of its streams; None: its only one. `start`: the
        stream's own start position, if it has one.
        """
        if stream is None:
            return self
        return replace(
            self,
            stream=stream.stream,
            stream_arn=arn,
            start_position=start or self.start_position,
            start_checkpoints=_of_stream(stream, self.start_checkpoints),
            end_checkpoints=_of_stream(stream, self.end_checkpoints),
        )

    @property
    def access(self) -> ServiceAccess:
        """How to reach the stream."""
        return ServiceAccess(
            region=self.region,
            endpoint_url=self.endpoint_url,
            profile=self.profile,
            role=self._role(self.role_arn),
        )

    @property
    def lease_access(self) -> ServiceAccess:
        """How to reach the lease table: with a role of its own, or with none. Region and profile default to the
        stream's.
        """
        return ServiceAccess(
            region=self.lease_region or self.region,
            endpoint_url=self.lease_endpoint_url,
            profile=self.lease_profile or self.profile,
            role=self._role(self.lease_role_arn),
        )

    def _role(self, arn: str | None) -> Role | None:
        if arn is None:
            return None
        return Role(
            arn=arn,
            session_name=self.role_session_name or "sublet-spark",
            external_id=self.role_external_id,
            sts_endpoint_url=self.sts_endpoint_url,
        )

    @property
    def settings(self) -> Settings:
        """The settings that the library's own adapters need."""
        return Settings(application=self.application or "sublet-spark", **self._which)

    @property
    def _which(self) -> Mapping[str, Any]:
        """The settings that name what is read."""
        if (choice := self.streams) is None:
            return {"stream": self.stream, "stream_arn": self.stream_arn}
        return {"streams": choice, "stream_discovery_interval": self.stream_discovery_interval}

    @property
    def keeper_settings(self) -> Settings:
        """The settings of a query that holds leases: one worker of its application, with the same name in every run. It
        never steals.
        """
        return Settings(
            application=self.application or "",
            **self._which,
            worker_id=f"{self.application}-spark",
            mode=Mode.CONTINUOUS,
            max_leases_to_steal_at_one_time=0,
            start_position=self.start_position,
            failover_time=self.failover_time,
            heartbeat_interval=self.failover_time // HEARTBEATS_PER_FAILOVER,
        )


def _of_stream(stream: StreamKey, checkpoints: Mapping[str, Checkpoint] | None) -> Mapping[str, Checkpoint] | None:
    if checkpoints is None:
        return None
    return {name: checkpoint for name, checkpoint in checkpoints.items() if stream_key_of(name) == stream}
