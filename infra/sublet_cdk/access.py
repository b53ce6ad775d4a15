"""Permissions of an application's roles: on its stream, its two tables, its failure destination, and their KMS keys.

Both constructs use this value, for the roles that they create and for those that get the same grants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import aws_iam as iam
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_kms as kms
from constructs import Construct
from sublet.errors import SettingsError
from sublet.operate.rules import role_needs
from sublet.settings import HotShardKeys, Reading, Settings
from sublet_cdk import roles
from sublet_cdk.failure_destination import Destination
from sublet_cdk.metrics_export import metrics_duty
from sublet_cdk.several_streams import consumer_arns, finding_streams, on_streams
from sublet_cdk.tables import Tables

Duties = Mapping[str, iam.PolicyStatement | None]
"""Policy statements by the name of the policy that they go into; None if it is not needed."""


@dataclass(frozen=True, slots=True)
class Access:
    """The resources that an application's roles may reach.

    stream_key        the stream's KMS key; None for AWS's own
    may_join_kcl      the lease table may belong to a KCL fleet, which has other tables too
    fan_out_consumer  the ARN of the fan-out consumer that reads; None for polling
    to_cloudwatch     metrics are sent to CloudWatch by OTLP
    """

    scope: Construct
    settings: Settings
    stream: kinesis.IStream | None
    stream_key: kms.IKey | None
    tables: Tables
    destination: Destination | None
    may_join_kcl: bool
    fan_out_consumer: str | None = None
    to_cloudwatch: bool = False

    def manager(self) -> Duties:
        return {
            "leases": roles.allow(role_needs.LEASE_MANAGER_ON_LEASES, self.tables.leases.table_arn),
            **self._kcl(roles.LEASE_MANAGER_ON_REPORTS, roles.LEASE_MANAGER_ON_KCL_STATE),
            **self._sightings(role_needs.LEASE_MANAGER_ON_SIGHTINGS),
            **self._streams(role_needs.LEASE_MANAGER_ON_STREAM, finds=True),
            **self._keys(),
            **metrics_duty(to_cloudwatch=self.to_cloudwatch),
        }

    def worker(self) -> Duties:
        return {
            "leases": roles.allow(role_needs.LEASE_WORKER_ON_LEASES, self.tables.leases.table_arn),
            **self._kcl(roles.LEASE_WORKER_ON_REPORTS),
            **self._sightings(role_needs.LEASE_WORKER_ON_SIGHTINGS),
            "sketches": self._sketches(),
            **self._streams(role_needs.LEASE_WORKER_ON_STREAM, finds_consumers=True),
            **self._fan_out(),
            **self._keys(),
            **metrics_duty(to_cloudwatch=self.to_cloudwatch),
            **self._schemas(),
            **self._on_failure(),
        }

    def process(self) -> Duties:
        """The permissions of `sublet run` and `sublet.Consumer`."""
        return {
            "leases": roles.allow(role_needs.PROCESS_ON_LEASES, self.tables.leases.table_arn),
            **self._kcl(roles.PROCESS_ON_REPORTS, roles.LEASE_MANAGER_ON_KCL_STATE),
            **self._sightings(role_needs.PROCESS_ON_SIGHTINGS),
            **self._streams(role_needs.PROCESS_ON_STREAM, finds=True, finds_consumers=True),
            **self._fan_out(),
            **self._keys(),
            **metrics_duty(to_cloudwatch=self.to_cloudwatch),
            **self._schemas(),
            **self._on_failure(),
        }

    def grant(self, grantee: iam.IGrantable, duties: Duties) -> None:
        for statement in duties.values():
            if statement is not None:
                roles.grant(grantee, statement.actions, *statement.resources, conditions=statement.conditions)

    def grant_read_leases(self, grantee: iam.IGrantable) -> iam.Grant:
        if keys := self._table_keys():
            roles.grant(grantee, roles.READER_ON_TABLES_KEY, *keys)
        tables = self.tables.leases.table_arn, self.tables.sightings.table_arn
        return roles.grant(grantee, roles.READER_ON_TABLES, *tables)

    def grant_redrive(self, grantee: iam.IGrantable) -> None:
        if self.destination is None:
            raise SettingsError("on_failure", None, "the destination that a redrive reads")
        self.destination.grant_redrive(grantee, self.settings.application)

    def _streams(self, actions: Sequence[str], *, finds: bool = False, finds_consumers: bool = False) -> Duties:
        if self.stream is not None:
            return {"stream": roles.allow(actions, self.stream.stream_arn)}
        choice = self.settings.streams
        assert choice is not None, "the settings require one or the other"
        if finds_consumers and self.settings.reading is Reading.FAN_OUT:
            actions = [*actions, *role_needs.FINDS_FAN_OUT]
        return {**on_streams(self.scope, choice, actions), **(finding_streams(choice) if finds else {})}

    def _sightings(self, actions: Sequence[str]) -> Duties:
        return {"sightings": roles.allow(actions, self.tables.sightings.table_arn)}

    def _fan_out(self) -> Duties:
        if self.settings.reading is Reading.POLLING:
            return {}
        choice, consumer = self.settings.streams, self.fan_out_consumer
        if choice is not None:
            arns = consumer_arns(self.scope, choice, self.settings.fan_out_name)
            return {"fan-out": roles.allow(role_needs.READER_ON_FAN_OUT, *arns)}
        return {"fan-out": roles.allow(role_needs.READER_ON_FAN_OUT, consumer)} if consumer else {}

    def _schemas(self) -> Duties:
        reads = role_needs.reads_schemas(self.settings)
        return {"schemas": roles.allow(role_needs.READS_SCHEMAS, "*")} if reads else {}

    def _sketches(self) -> iam.PolicyStatement | None:
        if self.settings.hot_shard_keys is HotShardKeys.NONE:
            return None
        return roles.allow_sketches(self.tables.sightings.table_arn)

    def _keys(self) -> Duties:
        stream, tables = self.stream_key, self._table_keys()
        return {
            "stream-key": roles.allow(["kms:Decrypt"], stream.key_arn) if stream else None,
            "tables-key": roles.allow(roles.ON_TABLES_KEY, *tables) if tables else None,
        }

    def _table_keys(self) -> list[str]:
        return [key.key_arn for key in self.tables.keys]

    def _kcl(self, reports: Sequence[str], state: Sequence[str] = ()) -> Duties:
        return roles.on_kcl(self.scope, self.settings, reports, state) if self.may_join_kcl else {}

    def _on_failure(self) -> Duties:
        return self.destination.duties(self.settings.application) if self.destination else {}
