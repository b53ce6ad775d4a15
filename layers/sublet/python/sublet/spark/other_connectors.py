"""Options of Databricks' `kinesis` source and of the awslabs connector (`aws-kinesis`), and what to write here
instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sublet.errors import SettingsError
from sublet.settings import StartPosition

_NO_KEYS = "no keys in options, which Spark shows in many places: use roleArn, profile, or what boto3 finds by itself"
_IN_OFFSET_LOG = "positions are in Spark's own offset log: leave it out"
_NOT_NEEDED = "not needed: leave it out"
_NO_FAN_OUT = "enhanced fan-out is not used: leave it out"


class ConnectorOption(NamedTuple):
    """An option of other connectors, in their own spelling. `here`: our option, or why there is none.

    value   converts the value to ours; None: it is the same, or cannot be converted
    """

    databricks: str | None
    awslabs: str | None
    here: str
    value: Callable[[str], str | None] | None = None


def _position(text: str) -> str | None:
    word = text.strip().upper()
    if word in ("LATEST", "TRIM_HORIZON"):
        return word
    if word == "EARLIEST":
        return "TRIM_HORIZON"
    moment = f"AT_TIMESTAMP:{text.strip()[len('AT_TIMESTAMP') :].strip()}" if word.startswith("AT_TIMESTAMP ") else ""
    try:
        StartPosition.parse(moment)
    except SettingsError:
        return "AT_TIMESTAMP:<ISO 8601 with time zone>"
    return moment


def _url(text: str) -> str:
    return text if "://" in text else f"https://{text}"


THEIRS = (
    ConnectorOption("streamName", "kinesis.streamName", "stream"),
    ConnectorOption("streamARN", None, "streamArn"),
    ConnectorOption(None, "kinesis.region", "region"),
    ConnectorOption("endpoint", "kinesis.endpointUrl", "endpointUrl", value=_url),
    ConnectorOption("initialPosition", "kinesis.startingPosition", "startPosition", value=_position),
    ConnectorOption(None, "kinesis.failOnDataLoss", "failOnDataLoss"),
    ConnectorOption(
        None, "kinesis.maxFetchRecordsPerShard", "maxRecordsPerTrigger", value=lambda _: "<rows of all shards together>"
    ),
    ConnectorOption(
        "maxFetchDuration",
        "kinesis.maxFetchTimePerShardSec",
        "maxSpanPerTrigger",
        value=lambda _: "<of arrival time: 10m>",
    ),
    ConnectorOption("shardFetchInterval", "kinesis.describeShardInterval", "listInterval"),
    ConnectorOption(None, "kinesis.stsRoleArn", "roleArn"),
    ConnectorOption(None, "kinesis.stsSessionName", "roleSessionName"),
    ConnectorOption("stsEndpoint", "kinesis.stsEndpointUrl", "stsEndpointUrl", value=_url),
    ConnectorOption(
        "serviceCredential", None, "a service credential is Databricks' own: use roleArn, or an instance profile"
    ),
    ConnectorOption("awsAccessKey", "kinesis.awsAccessKeyId", _NO_KEYS),
    ConnectorOption("awsSecretKey", "kinesis.awsSecretKey", _NO_KEYS),
    ConnectorOption("awsSessionToken", None, _NO_KEYS),
    ConnectorOption("consumerMode", "kinesis.consumerType", _NO_FAN_OUT),
    ConnectorOption("consumerName", "kinesis.consumerName", _NO_FAN_OUT),
    ConnectorOption("consumerNamePrefix", None, _NO_FAN_OUT),
    ConnectorOption("registeredConsumerId", None, _NO_FAN_OUT),
    ConnectorOption("requireConsumerDeregistration", None, _NO_FAN_OUT),
    ConnectorOption("fetchBufferSize", None, _NOT_NEEDED),
    ConnectorOption("maxFetchRate", None, "the shard's own limits are kept: leave it out"),
    ConnectorOption("minFetchPeriod", None, "the shard's own limits are kept: leave it out"),
    ConnectorOption("maxRecordsPerFetch", None, _NOT_NEEDED),
    ConnectorOption("shardsPerTask", None, "maxPartitions", value=lambda _: "<slots for tasks>"),
    ConnectorOption("coalesceThresholdBlockSize", None, _NOT_NEEDED),
    ConnectorOption("coalesceBinSize", None, _NOT_NEEDED),
    ConnectorOption(None, "kinesis.metadataCommitterType", _IN_OFFSET_LOG),
    ConnectorOption(None, "kinesis.metadataPath", _IN_OFFSET_LOG),
    ConnectorOption(None, "kinesis.dynamodb.tableName", _IN_OFFSET_LOG),
)

_BY_KEY = {name.lower(): each for each in THEIRS for name in (each.databricks, each.awslabs) if name is not None}


def instead_of(key: str, text: str) -> str | None:
    """Says what to write instead of another connector's option; None if the option is not one of theirs. The message
    contains the value only if our option has it too, and never an access key.
    """
    theirs = _BY_KEY.get(key.lower())
    if theirs is None:
        return None
    whose = (
        "Databricks'"
        if theirs.databricks is not None and key.lower() == theirs.databricks.lower()
        else "the awslabs connector's"
    )
    if not theirs.here.isidentifier():
        return f"an option of {whose}; here {theirs.here}"
    value = text if theirs.value is None else theirs.value(text)
    return f'an option of {whose}; here .option("{theirs.here}", "{value}")'
