"""The Account port over boto3. A consumer process' AWS ports are made here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from typing import Any

from botocore.exceptions import ClientError

from sublet.aws import clients
from sublet.aws.clients import MACHINE, Connection
from sublet.aws.faults import code_of
from sublet.aws.kinesis.errors import BAD_ARGUMENT, named_stream_errors
from sublet.aws.kinesis.fan_out_consumers import FanOutConsumer, look, registered
from sublet.aws.kinesis.put_records import KinesisWriter, entry_of
from sublet.aws.kinesis.raw_json import keep_raw_json
from sublet.aws.kinesis.several_streams import check_regions
from sublet.aws.kinesis.shapes import stream_info
from sublet.aws.kinesis.stream import KinesisStream
from sublet.aws.ports import aws_ports, log_of
from sublet.aws.standard_output import Output
from sublet.aws.tables import sightings
from sublet.aws.tables.control import DynamoDbControlStore
from sublet.aws.tables.create_tables import create_tables, require_tables
from sublet.aws.tables.delete_tables import delete_tables
from sublet.aws.tables.lease_table import WHAT as LEASES
from sublet.aws.tables.lease_table import DynamoDbLeaseTable
from sublet.aws.tables.sightings_without_table import LastingSightings
from sublet.aws.tables.table_errors import named_table_errors
from sublet.decisions.load.resharding import Merge, Reshard, Split
from sublet.decisions.manager.describe_again import DescriptionDoubt, doubt_of
from sublet.decisions.streams.stream_changes import (
    Change,
    RemoveKey,
    SetKey,
    SetMaxRecordKib,
    SetMode,
    SetRetention,
    SetShards,
)
from sublet.errors import (
    ControlUnreadable,
    LeaseTableAccessDenied,
    LeaseTableError,
    LeaseTableKeyUnexpected,
    LeaseTableNotFound,
    StreamAccessDenied,
    StreamError,
    StreamExists,
)
from sublet.ports import Clock, Log, Ports, RecordWriter, Signal, Stream, Tasks
from sublet.ports.account import ALL, ApplicationRows, Tags
from sublet.protocol.lease_attributes import LEASE_KEY
from sublet.protocol.records import NewRecord
from sublet.protocol.stream_identity import StreamArn, StreamIdentity, stream_settings
from sublet.protocol.stream_info import (
    AccountInfo,
    PutRecord,
    StreamDescription,
    StreamInfo,
    StreamMode,
    why_too_large,
)
from sublet.reading.shared_description import shared_placement
from sublet.settings import Settings
from sublet.settings.value import SIGHTINGS_SUFFIX
from sublet.system.clock import SystemClock
from sublet.system.threads import ThreadTasks

SERVICE = "consumer_process"
"""The service name in log lines."""

THE_ACCOUNT = "(all of this account and region)"
"""Stands for the stream in errors about the whole account."""


class AwsAccount:
    """The Account port. Thread-safe; clients are made on first use. `output`: see `aws_ports`."""

    def __init__(self, connection: Connection = MACHINE, output: Output | None = None) -> None:
        self._connection = connection
        self._output = output
        self.clock: Clock = SystemClock()
        self.tasks: Tasks = ThreadTasks()

    @cached_property
    def log(self) -> Log:
        return log_of(SERVICE, self._output)

    @cached_property
    def _kinesis(self) -> Any:
        client = clients.kinesis_client(*self._connection)
        keep_raw_json(client, "DescribeStreamSummary")  # older botocore leaves out MaxRecordSizeInKiB
        return client

    @cached_property
    def _dynamodb(self) -> Any:
        return clients.dynamodb_client(*self._connection)

    @cached_property
    def _tagging(self) -> Any:
        return clients.tagging_client(*self._connection)

    @cached_property
    def _scans(self) -> Any:
        """A table client of its own: its Scan replies are raw JSON."""
        return clients.dynamodb_client(*self._connection)

    def streams(self) -> Iterator[str]:
        with named_stream_errors(THE_ACCOUNT):
            for page in self._kinesis.get_paginator("list_streams").paginate():
                yield from page["StreamNames"]

    def info(self, stream: str) -> StreamInfo:
        with named_stream_errors(stream):
            return stream_info(self._kinesis.describe_stream_summary(**_named(stream)))

    def create(self, stream: str, shards: int | None) -> None:
        mode = StreamMode.ON_DEMAND if shards is None else StreamMode.PROVISIONED
        count = {} if shards is None else {"ShardCount": shards}
        with named_stream_errors(stream):
            try:
                self._kinesis.create_stream(StreamName=stream, StreamModeDetails={"StreamMode": mode.value}, **count)
            except ClientError as error:
                if code_of(error) != "ResourceInUseException":
                    raise
                raise StreamExists(f"stream {stream} exists already; update it, or use it as it is") from error

    def change(self, stream: str, change: Change) -> None:
        kinesis, named = self._kinesis, _named(stream)
        with named_stream_errors(stream):
            match change:
                case SetMode(mode):
                    arn = {"StreamARN": self.info(stream).identity.arn}
                    kinesis.update_stream_mode(**arn, StreamModeDetails={"StreamMode": mode.value})
                case SetShards(count):
                    kinesis.update_shard_count(**named, TargetShardCount=count, ScalingType="UNIFORM_SCALING")
                case SetRetention(retention, is_longer):
                    hours = {"RetentionPeriodHours": retention // timedelta(hours=1)}
                    if is_longer:
                        kinesis.increase_stream_retention_period(**named, **hours)
                    else:
                        kinesis.decrease_stream_retention_period(**named, **hours)
                case SetMaxRecordKib(kib):
                    if not hasattr(kinesis, "update_max_record_size"):
                        raise StreamError(
                            f"stream {stream}: this boto3 cannot set MaxRecordSizeInKiB; use 1.40.60 or later"
                        )
                    arn = {"StreamARN": self.info(stream).identity.arn}
                    kinesis.update_max_record_size(**arn, MaxRecordSizeInKiB=kib)
                case SetKey(key):
                    kinesis.start_stream_encryption(**named, EncryptionType="KMS", KeyId=key)
                case Split() | Merge():
                    self._reshard(named, change)
                case RemoveKey(key):
                    kinesis.stop_stream_encryption(**named, EncryptionType="KMS", KeyId=key)

    def _reshard(self, named: dict[str, str], change: Reshard) -> None:
        match change:
            case Split(shard_id, at):
                self._kinesis.split_shard(**named, ShardToSplit=shard_id, NewStartingHashKey=str(at))
            case Merge(shard_id, adjacent):
                self._kinesis.merge_shards(**named, ShardToMerge=shard_id, AdjacentShardToMerge=adjacent)

    def delete(self, stream: str) -> None:
        with named_stream_errors(stream):
            self._kinesis.delete_stream(**_named(stream))

    def put(self, stream: str, record: NewRecord) -> PutRecord:
        with named_stream_errors(stream):
            try:
                reply = self._kinesis.put_record(**_named(stream), **entry_of(record))
            except ClientError as refused:
                if code_of(refused) in BAD_ARGUMENT and (why := self._why_too_large(stream, record)):
                    raise StreamError(why) from refused
                raise
        return PutRecord(reply["ShardId"], reply["SequenceNumber"])

    def _why_too_large(self, stream: str, record: NewRecord) -> str | None:
        """Called only for a record that was refused: DescribeStreamSummary is limited per account, so it cannot
        precede each large record. Returns None if the role may not describe the stream."""
        try:
            return why_too_large(record, self.info(stream))
        except StreamError:
            return None

    def registered(self, settings: Settings, name: str, stop: Signal) -> FanOutConsumer | None:
        """Registers the consumer of the settings' one stream, which may be another account's."""
        check_regions(settings, self._kinesis.meta.region_name)
        stream = settings.stream_arn or settings.stream
        return registered(self._kinesis, self.info(stream).identity.arn, name, stop)

    def consumer_arn(self, stream: str, name: str) -> str | None:
        """The ARN of the stream's fan-out consumer of this name; None if there is none."""
        arn = self.info(stream).identity.arn
        with named_stream_errors(stream):
            return look(self._kinesis, arn, name).arn

    def reading(self, stream: str) -> Stream:
        named: dict[str, Any] = dict(stream_settings(stream))
        settings = Settings(application="sublet", **named)
        return KinesisStream(self._kinesis, clients.kinesis_poll_client(*self._connection), settings)

    def writing(self, stream: str) -> RecordWriter:
        named: dict[str, Any] = dict(stream_settings(stream))
        client = clients.kinesis_put_client(*self._connection)
        return KinesisWriter(client, Settings(application="sublet", **named))

    def limits(self) -> AccountInfo:
        with named_stream_errors(THE_ACCOUNT):
            reply = self._kinesis.describe_limits()
        return AccountInfo(
            reply["OpenShardCount"],
            reply["ShardLimit"],
            reply.get("OnDemandStreamCount", 0),
            reply.get("OnDemandStreamCountLimit", 0),
        )

    def compose(
        self, settings: Settings, stop: Signal, *, may_create: bool, say: Callable[[str], None] | None = None
    ) -> tuple[Ports, Settings]:
        check_regions(settings, self._kinesis.meta.region_name)  # before a table is created for nothing
        is_named = settings.stream_arn is not None or settings.streams is not None
        known = None if is_named else self._known_stream(settings.application)
        stream: Stream | None = None
        if known is not None and StreamArn.parse(known.arn).stream == settings.stream:
            settings = replace(settings, stream_arn=known.arn)  # as found by earlier processes
        elif not is_named:
            stream = self.reading(settings.stream)
            stream.list_shards()  # create no table for a stream that does not exist
        if may_create:
            create_tables(self._dynamodb, settings, stop, say or self.log.info)
        else:
            require_tables(self._dynamodb, settings)
        if stream is not None:
            settings = self._with_stream_arn(settings, stream, stop)
        ports = aws_ports(settings, SERVICE, self._connection, self._output, makes_tables=may_create)
        return ports, settings

    def _with_stream_arn(self, settings: Settings, stream: Stream, stop: Signal) -> Settings:
        """The first of several processes that start together describes the stream; the others read its result from
        the table. If the table remembers another stream, the first tick reports it."""
        store = LastingSightings(lambda: self._dynamodb, settings, self.log)
        remembered = store.load()
        doubt = doubt_of(remembered.placement, settings.stream, None, has_suspects=False)
        try:
            if doubt is not DescriptionDoubt.NONE:
                found: StreamDescription | None = stream.describe()
            else:
                found = shared_placement(stream.describe, store, stop, remembered, self.clock.now()).last
        except StreamAccessDenied:
            return settings
        return settings if found is None else replace(settings, stream_arn=found.identity.arn)

    def applications(self) -> Iterator[str]:
        with named_table_errors(sightings.WHAT, THE_ACCOUNT, sightings.KEY):
            for name in self.tables():
                if name.endswith(SIGHTINGS_SUFFIX):
                    yield name.removesuffix(SIGHTINGS_SUFFIX)

    def tables(self, tags: Tags = ALL) -> Iterator[str]:
        with named_table_errors(LEASES, THE_ACCOUNT, LEASE_KEY):
            if tags:
                yield from self._tagged(tags)
                return
            for page in self._dynamodb.get_paginator("list_tables").paginate():
                yield from page["TableNames"]

    def _tagged(self, tags: Tags) -> Sequence[str]:
        """Finds tables by the Resource Groups Tagging API, with a call for each hundred tables that have the tags.
        DynamoDB's ListTagsOfResource is one call for each table of the account, at most ten a second.
        """
        pages = self._tagging.get_paginator("get_resources").paginate(
            ResourceTypeFilters=["dynamodb:table"],
            TagFilters=[
                {"Key": name, **({} if value is None else {"Values": [value]})} for name, value in tags.items()
            ],
        )
        arns = [found["ResourceARN"] for page in pages for found in page["ResourceTagMappingList"]]
        return sorted(arn.rpartition("/")[2] for arn in arns)

    def application_rows(self, table: str) -> ApplicationRows | None:
        with named_table_errors(LEASES, table, LEASE_KEY):
            described = self._dynamodb.describe_table(TableName=table)["Table"]
        if [column["AttributeName"] for column in described["KeySchema"]] != [LEASE_KEY]:
            return None
        scan = DynamoDbLeaseTable(self._scans, table, several=None).scan()
        beside = table + SIGHTINGS_SUFFIX
        try:
            remembered = sightings.DynamoDbSightingStore(lambda: self._dynamodb, beside).load()
            control = DynamoDbControlStore(lambda: self._dynamodb, beside).control()
        except LeaseTableNotFound:
            return ApplicationRows(scan)
        except (LeaseTableError, ControlUnreadable) as unknown:
            return ApplicationRows(scan, problem=str(unknown))
        return ApplicationRows(scan, remembered, control)

    def stream_of(self, application: str) -> StreamIdentity | None:
        name, key = application + SIGHTINGS_SUFFIX, {sightings.KEY: {"S": sightings.STREAM}}
        try:
            with named_table_errors(sightings.WHAT, name, sightings.KEY):
                return sightings.stream_of(self._dynamodb.get_item(TableName=name, Key=key).get("Item"))
        except (LeaseTableNotFound, LeaseTableKeyUnexpected):
            return None

    def _known_stream(self, application: str) -> StreamIdentity | None:
        """None also if the role may not read the item, as version 0.2's roles may not; the caller then asks Kinesis."""
        try:
            return self.stream_of(application)
        except LeaseTableAccessDenied:
            return None

    def delete_tables(self, settings: Settings) -> None:
        delete_tables(self._dynamodb, settings)


def _named(stream: str) -> dict[str, str]:
    return {"StreamARN": stream} if stream.startswith("arn:") else {"StreamName": stream}
