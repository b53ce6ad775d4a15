"""Options of Spark's other sources, and what to write here instead: Databricks' `kinesis`, the awslabs connector
(`aws-kinesis`), the Qubole connector (roncemer's fork and Glue's, too) and Kafka's source."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from sublet.errors import SettingsError
from sublet.settings import StartPosition
from sublet.spark.option_values import position_text

_NO_KEYS = "no keys in options, which Spark shows in many places: use roleArn, profile, or what boto3 finds by itself"
_IN_OFFSET_LOG = "positions are in Spark's own offset log: leave it out"
_NOT_NEEDED = "not needed: leave it out"
_NO_FAN_OUT = "enhanced fan-out is not used: leave it out"
_LIMITS_KEPT = "the shard's own limits are kept: leave it out"
_TO_THE_TIP = (
    "a batch reads to the tip; for less, endPosition (AT_TIMESTAMP:<ISO 8601 with time zone>) or endCheckpoints"
)
_NO_LEAST = "a batch has no least size: give the query a trigger"
_MOMENT = "AT_TIMESTAMP:<ISO 8601 with time zone>"


class ConnectorOption(NamedTuple):
    """An option of other connectors, in their own spelling. `here`: our option, or why there is none.

    value   converts the value to ours; None: it is the same
    """

    databricks: str | None
    awslabs: str | None
    here: str
    value: Callable[[str], str | None] | None = None
    qubole: str | None = None
    kafka: str | None = None


def _position(text: str) -> str:
    """Converts `latest`, `earliest` and the awslabs connector's `AT_TIMESTAMP 2026-01-31T08:00:00Z`."""
    ours = position_text(":".join(text.split(maxsplit=1)))
    try:
        StartPosition.parse(ours)
    except SettingsError:
        return _MOMENT
    return ours


def _moment(text: str) -> str:
    """Converts Kafka's milliseconds since 1970."""
    try:
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=int(text))
    except (ValueError, OverflowError):
        return _MOMENT
    return f"AT_TIMESTAMP:{at.isoformat().replace('+00:00', 'Z')}"


def _url(text: str) -> str:
    return text if "://" in text else f"https://{text}"


def _like(example: str) -> Callable[[str], str]:
    """For a value that cannot be converted."""
    return lambda _: f"<{example}>"


THEIRS = (
    ConnectorOption("streamName", "kinesis.streamName", "stream", qubole="streamName", kafka="subscribe"),
    ConnectorOption("streamARN", None, "streamArn", qubole="streamARN"),
    ConnectorOption(None, None, "stream", value=_like("names and patterns: orders,audit-*"), kafka="subscribePattern"),
    ConnectorOption(None, None, "stream", kafka="topic"),
    ConnectorOption(None, "kinesis.region", "region"),
    ConnectorOption("endpoint", "kinesis.endpointUrl", "endpointUrl", value=_url),
    ConnectorOption(
        "initialPosition",
        "kinesis.startingPosition",
        "startPosition",
        value=_position,
        qubole="startingPosition",
        kafka="startingOffsets",
    ),
    ConnectorOption(None, None, "startPosition", value=_moment, kafka="startingTimestamp"),
    ConnectorOption(None, None, "startPosition", value=lambda _: _MOMENT, kafka="startingOffsetsByTimestamp"),
    ConnectorOption(None, None, "endPosition", value=_moment, kafka="endingTimestamp"),
    ConnectorOption(None, None, "endPosition", value=lambda _: _MOMENT, kafka="endingOffsetsByTimestamp"),
    ConnectorOption(None, None, _TO_THE_TIP, kafka="endingOffsets"),
    ConnectorOption(None, "kinesis.failOnDataLoss", "failOnDataLoss"),
    ConnectorOption(None, None, "maxRecordsPerTrigger", kafka="maxOffsetsPerTrigger"),
    ConnectorOption(
        None,
        "kinesis.maxFetchRecordsPerShard",
        "maxRecordsPerTrigger",
        value=_like("rows of all shards together"),
        qubole="kinesis.executor.maxFetchRecordsPerShard",
    ),
    ConnectorOption(
        "maxFetchDuration",
        "kinesis.maxFetchTimePerShardSec",
        "maxSpanPerTrigger",
        value=_like("of arrival time: 10m"),
        qubole="kinesis.executor.maxFetchTimeInMs",
    ),
    ConnectorOption(
        "shardFetchInterval",
        "kinesis.describeShardInterval",
        "listInterval",
        qubole="kinesis.client.describeShardInterval",
    ),
    ConnectorOption(None, "kinesis.stsRoleArn", "roleArn", qubole="awsSTSRoleARN"),
    ConnectorOption(None, "kinesis.stsSessionName", "roleSessionName", qubole="awsSTSSessionName"),
    ConnectorOption("stsEndpoint", "kinesis.stsEndpointUrl", "stsEndpointUrl", value=_url),
    ConnectorOption(
        "serviceCredential", None, "a service credential is Databricks' own: use roleArn, or an instance profile"
    ),
    ConnectorOption("awsAccessKey", "kinesis.awsAccessKeyId", _NO_KEYS, qubole="awsAccessKeyId"),
    ConnectorOption("awsSecretKey", "kinesis.awsSecretKey", _NO_KEYS, qubole="awsSecretKey"),
    ConnectorOption("awsSessionToken", None, _NO_KEYS),
    ConnectorOption(None, None, "boto3 finds a profile by itself: leave it out", qubole="awsUseInstanceProfile"),
    ConnectorOption("consumerMode", "kinesis.consumerType", _NO_FAN_OUT),
    ConnectorOption("consumerName", "kinesis.consumerName", _NO_FAN_OUT),
    ConnectorOption("consumerNamePrefix", None, _NO_FAN_OUT),
    ConnectorOption("registeredConsumerId", None, _NO_FAN_OUT),
    ConnectorOption("requireConsumerDeregistration", None, _NO_FAN_OUT),
    ConnectorOption("fetchBufferSize", None, _NOT_NEEDED),
    ConnectorOption("maxFetchRate", None, _LIMITS_KEPT, qubole="kinesis.executor.addIdleTimeBetweenReads"),
    ConnectorOption("minFetchPeriod", None, _LIMITS_KEPT, qubole="kinesis.executor.idleTimeBetweenReadsInMs"),
    ConnectorOption("maxRecordsPerFetch", None, _NOT_NEEDED, qubole="kinesis.executor.maxRecordPerRead"),
    ConnectorOption("shardsPerTask", None, "maxPartitions", value=_like("slots for tasks"), kafka="minPartitions"),
    ConnectorOption("coalesceThresholdBlockSize", None, _NOT_NEEDED),
    ConnectorOption("coalesceBinSize", None, _NOT_NEEDED),
    ConnectorOption(None, None, _NOT_NEEDED, qubole="kinesis.client.avoidEmptyBatches"),
    ConnectorOption(
        None,
        None,
        "patience",
        value=_like("how long to try: 60s"),
        qubole="kinesis.client.numRetries",
        kafka="fetchOffset.numRetries",
    ),
    ConnectorOption(
        None,
        None,
        "patience",
        value=_like("how long to try: 60s"),
        qubole="kinesis.client.retryIntervalMs",
        kafka="fetchOffset.retryIntervalMs",
    ),
    ConnectorOption(
        None, None, "patience", value=_like("how long to try: 60s"), qubole="kinesis.client.maxRetryIntervalMs"
    ),
    ConnectorOption(None, None, "aggregate", qubole="kinesis.executor.aggregationEnabled"),
    ConnectorOption(None, None, _NOT_NEEDED, qubole="kinesis.executor.recordMaxBufferedTime"),
    ConnectorOption(None, None, _NOT_NEEDED, qubole="kinesis.executor.maxConnections"),
    ConnectorOption(None, None, _NOT_NEEDED, qubole="kniesis.executor.flushwaittimemillis"),
    ConnectorOption(None, "kinesis.metadataCommitterType", _IN_OFFSET_LOG),
    ConnectorOption(None, "kinesis.metadataPath", _IN_OFFSET_LOG, kafka="kafka.group.id"),
    ConnectorOption(None, "kinesis.dynamodb.tableName", _IN_OFFSET_LOG, kafka="groupIdPrefix"),
    ConnectorOption(None, None, "no brokers: region, or endpointUrl", kafka="kafka.bootstrap.servers"),
    ConnectorOption(None, None, "records have no headers: leave it out", kafka="includeHeaders"),
    ConnectorOption(None, None, _NO_LEAST, kafka="minOffsetsPerTrigger"),
    ConnectorOption(None, None, _NO_LEAST, kafka="maxTriggerDelay"),
)

_WHOSE = {
    "databricks": "Databricks'",
    "awslabs": "the awslabs connector's",
    "qubole": "the Qubole connector's",
    "kafka": "Kafka's",
}


def _by_key() -> dict[str, tuple[ConnectorOption, list[str]]]:
    """Each name, with whose it is."""
    found: dict[str, tuple[ConnectorOption, list[str]]] = {}
    for each in THEIRS:
        for connector, whose in _WHOSE.items():
            if (name := getattr(each, connector)) is not None:
                found.setdefault(name.lower(), (each, []))[1].append(whose)
    return found


_BY_KEY = _by_key()


def instead_of(key: str, text: str) -> str | None:
    """Says what to write instead of another connector's option; None if the option is not one of theirs. The message
    contains the value only if our option has it too, and never an access key.
    """
    if key.lower() not in _BY_KEY:
        return None
    theirs, owners = _BY_KEY[key.lower()]
    whose = " and ".join(owners)
    if not theirs.here.isidentifier():
        return f"an option of {whose}; here {theirs.here}"
    value = text if theirs.value is None else theirs.value(text)
    return f'an option of {whose}; here .option("{theirs.here}", "{value}")'
