"""The source's options: a wrong one is refused by name, in the user's spelling."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sublet.aws.service_access import Role, ServiceAccess
from sublet.errors import SettingsError
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.stream_key import StreamKey
from sublet.settings import HashRangeFilter, StartKind, StartPosition
from sublet.spark.option_table import OPTIONS, parse_options
from sublet.spark.options import Leases, UseOfLeases
from sublet.spark.other_connectors import THEIRS

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "spark.md"


ARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"


def test_defaults() -> None:
    options = parse_options({"stream": "orders"}, UseOfLeases.STREAM)
    assert options.start_position == StartPosition(StartKind.TRIM_HORIZON)
    assert options.hash_range_filter is HashRangeFilter.KCL
    assert options.fail_on_data_loss is True
    assert options.patience == timedelta(seconds=60)
    assert options.max_span_per_trigger is None


def test_names_come_in_any_case() -> None:
    options = parse_options(
        {"stream": "orders", "MAXSPANPERTRIGGER": "5m", "failondataloss": "False"}, UseOfLeases.STREAM
    )
    assert options.max_span_per_trigger == timedelta(minutes=5)
    assert options.fail_on_data_loss is False


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("latest", StartKind.LATEST),
        ("Trim_Horizon", StartKind.TRIM_HORIZON),
        ("earliest", StartKind.TRIM_HORIZON),
        (" LATEST ", StartKind.LATEST),
        ("at_timestamp:2026-01-31t08:00:00z", StartKind.AT_TIMESTAMP),
    ],
)
def test_positions_come_in_any_case(text: str, kind: StartKind) -> None:
    of_all = parse_options({"stream": "orders", "startPosition": text}, UseOfLeases.STREAM)
    of_one = parse_options({"stream": f"orders@{text}"}, UseOfLeases.STREAM)
    at = datetime(2026, 1, 31, 8, tzinfo=UTC) if kind is StartKind.AT_TIMESTAMP else None
    assert of_all.start_position == StartPosition(kind, at)
    assert of_one.streams is not None
    assert [each.start for each in of_one.streams.selectors] == [StartPosition(kind, at)]


def test_words_come_in_any_case() -> None:
    given = {"stream": "orders", "application": "audit", "leases": "Hold", "hashRangeFilter": "OFF"}
    options = parse_options(given, UseOfLeases.STREAM)
    assert options.leases is Leases.HOLD
    assert options.hash_range_filter is HashRangeFilter.OFF


@pytest.mark.parametrize(
    ("text", "lasts"),
    [
        ("5m", timedelta(minutes=5)),
        ("5M", timedelta(minutes=5)),
        ("5 minutes", timedelta(minutes=5)),
        ("10 seconds", timedelta(seconds=10)),
        ("1 second", timedelta(seconds=1)),
        ("interval 1 Hour 30 MINUTES", timedelta(minutes=90)),
        ("250 milliseconds", timedelta(milliseconds=250)),
        ("1.5 seconds", timedelta(seconds=1.5)),
        ("2 weeks", timedelta(days=14)),
    ],
)
def test_durations_are_ours_or_sparks_intervals(text: str, lasts: timedelta) -> None:
    options = parse_options({"stream": "orders", "maxSpanPerTrigger": text}, UseOfLeases.STREAM)
    assert options.max_span_per_trigger == lasts


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "a number and a unit"),
        ("5", "a number and a unit"),
        ("minutes", "a number and a unit"),
        ("5 parsecs", "a number and a unit"),
        ("5 minutes or so", "a number and a unit"),
        ("-5 minutes", "a number and a unit"),
        ("interval", "a number and a unit"),
        ("1 month", "a month has no fixed length"),
        ("0 seconds", "longer than 0"),
        ("6000 weeks", "at most 36,525 days"),
        ("36525 days 1 second", "at most 36,525 days"),
    ],
)
def test_other_durations_are_refused(text: str, why: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(why)) as refused:
        parse_options({"stream": "orders", "maxSpanPerTrigger": text}, UseOfLeases.STREAM)
    assert refused.value.name == "maxSpanPerTrigger"


@pytest.mark.parametrize(
    ("given", "named", "why"),
    [
        ({}, "stream", "required"),
        ({"stream": ""}, "stream", "not empty"),
        ({"stream": "a/b"}, "stream", "stream name"),
        ({"stream": "orders", "path": "/lake"}, "path", "has no path"),
        ({"stream": "orders", "option.stream": "orders"}, "USING sublet", "CREATE TEMPORARY VIEW"),
        ({"provider": "sublet", "owner": "me"}, "USING sublet", "CREATE TEMPORARY VIEW"),
        ({"stream": "orders", "streem": "x"}, "streem", "did you mean stream?"),
        ({"stream": "orders,a/b"}, "stream", "streams separated by commas"),
        ({"stream": "orders,audit@NOW"}, "stream", "one of TRIM_HORIZON"),
        ({"stream": "orders,audit", "streamArn": "arn:x"}, "streamArn", "name the ARNs in stream"),
        ({"stream": ARN, "streamArn": ARN + "2"}, "streamArn", "not beside another ARN"),
        (
            {"stream": "orders", "streamDiscoveryInterval": "1m"},
            "streamDiscoveryInterval",
            "only with several",
        ),
        ({"stream": "a,b", "streamDiscoveryInterval": "1s"}, "streamDiscoveryInterval", "10s to 1d"),
        ({"stream": "orders", "startPosition": "NEWEST"}, "startPosition", "one of TRIM_HORIZON, LATEST"),
        (
            {"stream": "orders", "startPosition": "AT_TIMESTAMP:2026-01-31T08:00:00"},
            "startPosition",
            "time zone",
        ),
        ({"stream": "orders", "maxRecordsPerTrigger": "0"}, "maxRecordsPerTrigger", "from 1 on"),
        ({"stream": "orders", "maxSpanPerTrigger": "5"}, "maxSpanPerTrigger", "a number and a unit"),
        ({"stream": "orders", "patience": "0s"}, "patience", "longer than 0"),
        ({"stream": "orders", "failOnDataLoss": "no"}, "failOnDataLoss", "true or false"),
        ({"stream": "orders", "leases": "follow"}, "leases", "goes with application"),
        ({"stream": "orders", "application": "audit"}, "leases", "goes with application"),
        (
            {"stream": "orders", "application": "audit", "leases": "steal"},
            "leases",
            "one of none, follow, hold",
        ),
        ({"stream": "orders", "leases": "hold"}, "leases", "goes with application"),
        ({"stream": "orders", "failoverTime": "9s"}, "failoverTime", "only with leases=hold"),
        ({"stream": "orders", "checkpointLocation": "c"}, "checkpointLocation", "only with leases=hold"),
        (
            {"stream": "orders", "application": "audit", "leases": "hold", "failoverTime": "1s"},
            "failoverTime",
            "3s to 1d",
        ),
        ({"stream": "orders", "endpointUrl": "localhost:4567"}, "endpointUrl", "a URL with its scheme"),
        ({"stream": "orders", "roleArn": "orders-reader"}, "roleArn", "a role's ARN"),
        ({"stream": "orders", "roleExternalId": "e"}, "roleExternalId", "2 to 1224"),
        (
            {"stream": "orders", "roleExternalId": "e-7"},
            "roleExternalId",
            "only with roleArn or leaseRoleArn",
        ),
        ({"stream": "orders", "leaseRegion": "eu-west-1"}, "leaseRegion", "only with leases=follow or hold"),
        ({"stream": "orders", "hashRangeFilter": "on"}, "hashRangeFilter", "one of kcl, off"),
        (
            {"stream": "orders", "maxRecordsPerTrigger": "5", "maxBytesPerTrigger": "5"},
            "maxBytesPerTrigger",
            "cannot go with maxRecordsPerTrigger",
        ),
        (
            {"stream": "orders", "endPosition": "AT_TIMESTAMP:2026-01-31T08:00:00Z"},
            "endPosition",
            "not for readStream",
        ),
    ],
)
def test_refused_for_a_stream(given: dict[str, str], named: str, why: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(why)) as refused:
        parse_options(given, UseOfLeases.STREAM)
    assert refused.value.name.lower() == named.lower()


@pytest.mark.parametrize(
    ("given", "named", "why"),
    [
        ({"startPosition": "LATEST"}, "startPosition", "nothing is after the tip"),
        ({"stream": "orders,audit@LATEST"}, "startPosition", "nothing is after the tip"),
        ({"maxBytesPerTrigger": "5"}, "maxBytesPerTrigger", "not for read,"),
        ({"endPosition": "TRIM_HORIZON"}, "endPosition", "leave it out"),
        (
            {"startCheckpoints": "{}", "startPosition": "TRIM_HORIZON"},
            "startCheckpoints",
            "cannot go with startPosition",
        ),
        ({"startCheckpoints": "[1]"}, "startCheckpoints", "a JSON object"),
        ({"startCheckpoints": '{"shardId-0": "x"}'}, "startCheckpoints", "a JSON object"),
        (
            {
                "startPosition": "AT_TIMESTAMP:2026-01-31T08:00:00Z",
                "endPosition": "AT_TIMESTAMP:2026-01-31T09:00:00+01:00",
            },
            "endPosition",
            "later than startPosition",
        ),
    ],
)
def test_refused_for_a_batch(given: dict[str, str], named: str, why: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(why)) as refused:
        parse_options({"stream": "orders", **given}, UseOfLeases.BATCH)
    assert refused.value.name == named


def test_options_that_no_use_allows_together_are_refused_while_asking_for_the_schema() -> None:
    """`load()` asks for the schema only."""
    with pytest.raises(SettingsError, match="only for read, and maxSpanPerTrigger is for readStream") as refused:
        parse_options({"stream": "orders", "maxSpanPerTrigger": "5m", "endCheckpoints": "{}"}, None)
    assert refused.value.name == "endCheckpoints"


@pytest.mark.parametrize(
    ("text", "parts"),
    [("orders", None), (ARN, None), ("a,b", 2), ("a*", 1), ("tag:k=v", 1), ("a@LATEST", 1), (f"{ARN},b", 2)],
)
def test_stream_option_names_one_stream_or_several(text: str, parts: int | None) -> None:
    options = parse_options({"stream": text}, UseOfLeases.STREAM)
    assert (None if options.streams is None else len(options.streams.selectors)) == parts
    assert options.settings.streams == options.streams
    if parts is None:
        assert (options.stream, options.stream_arn) == ("orders", ARN if text == ARN else None)


def test_a_sink_writes_to_one_stream() -> None:
    with pytest.raises(SettingsError, match="one stream, by its name or ARN, to write to"):
        parse_options({"stream": "orders,audit"}, UseOfLeases.WRITE)


def test_options_of_one_of_several_streams_are_those_of_it_alone() -> None:
    one, other = StreamKey("123456789012", "orders", 1), StreamKey("123456789012", "audit", 2)
    at = {f"{one}:shardId-0": "49:3", f"{other}:shardId-0": "SHARD_END"}
    options = parse_options({"stream": "orders,audit", "startCheckpoints": json.dumps(at)}, UseOfLeases.BATCH)
    alone = options.of_stream(one, ARN, StartPosition(StartKind.LATEST))
    assert (alone.stream, alone.stream_arn, alone.streams) == ("orders", ARN, None)
    assert alone.start_position.kind is StartKind.LATEST
    assert alone.start_checkpoints == {f"{one}:shardId-0": Checkpoint("49", 3)}
    assert alone.end_checkpoints is None
    assert options.of_stream(other, ARN).start_position == options.start_position


def test_values_are_shown_as_the_user_writes_them() -> None:
    with pytest.raises(SettingsError, match="setting leases = 'none': "):
        parse_options({"stream": "orders", "application": "audit"}, UseOfLeases.STREAM)


@pytest.mark.parametrize("seconds", [3, 5, 10, 20])
def test_failover_time_of_any_length_has_fitting_heartbeats(seconds: int) -> None:
    """A third of five seconds, rounded up to a microsecond, is more than a third."""
    given = {"stream": "orders", "application": "audit", "leases": "hold", "failoverTime": f"{seconds}s"}
    settings = parse_options(given, UseOfLeases.STREAM).keeper_settings
    assert settings.heartbeat_interval * 3 <= settings.failover_time


def test_moments_keep_their_zone() -> None:
    options = parse_options(
        {"stream": "orders", "startPosition": "AT_TIMESTAMP:2026-01-31T09:00:00+01:00"}, UseOfLeases.BATCH
    )
    assert options.start_position.at == datetime(2026, 1, 31, 8, tzinfo=UTC)


def test_the_document_has_each_option_with_its_default_and_meaning() -> None:
    text = DOCUMENT.read_text()
    for option in OPTIONS:
        default = f"`{option.default}`" if option.default is not None else ""
        uses = ", ".join(option.uses)
        assert f"| `{option.name}` | {default} | {uses} | {option.meaning} |" in text


ROLE = "arn:aws:iam::123456789012:role/orders-reader"


def test_the_stream_and_the_lease_table_each_have_their_way_in() -> None:
    given = {
        "stream": "orders",
        "application": "audit",
        "leases": "follow",
        "region": "eu-west-1",
        "profile": "data",
    }
    roles = {"roleArn": ROLE, "roleExternalId": "a-secret", "leaseRegion": "us-east-1", "leaseProfile": "ops"}
    options = parse_options({**given, **roles}, UseOfLeases.STREAM)
    role = Role(arn=ROLE, session_name="sublet-spark", external_id="a-secret")
    assert options.access == ServiceAccess(region="eu-west-1", profile="data", role=role)
    assert options.lease_access == ServiceAccess(region="us-east-1", profile="ops")
    leases = parse_options({**given, "leaseRoleArn": ROLE, "roleSessionName": "audit"}, UseOfLeases.STREAM)
    assert leases.access == ServiceAccess(region="eu-west-1", profile="data")
    assert leases.lease_access == ServiceAccess(
        region="eu-west-1", profile="data", role=Role(arn=ROLE, session_name="audit")
    )


def test_an_external_id_is_in_no_message_of_ours() -> None:
    given = {"stream": "orders", "roleArn": ROLE, "roleExternalId": "a-secret"}
    options = parse_options(given, UseOfLeases.STREAM)
    assert "a-secret" not in f"{options!r} {options.access!r}"
    for wrong in ({"roleExternalId": "a secret"}, {"roleArn": "x"}):
        with pytest.raises(SettingsError) as refused:
            parse_options({**given, **wrong}, UseOfLeases.STREAM)
        assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("streamName", "orders", 'of Databricks\' and the Qubole connector\'s; here .option("stream", "orders")'),
        ("kinesis.streamName", "orders", 'the awslabs connector\'s; here .option("stream", "orders")'),
        ("initialPosition", "trim_horizon", '.option("startPosition", "TRIM_HORIZON")'),
        ("initialPosition", "earliest", '.option("startPosition", "TRIM_HORIZON")'),
        ("kinesis.startingPosition", "LATEST", '.option("startPosition", "LATEST")'),
        (
            "kinesis.startingPosition",
            "AT_TIMESTAMP 2023-08-30T19:00:05Z",
            '.option("startPosition", "AT_TIMESTAMP:2023-08-30T19:00:05Z")',
        ),
        ("initialPosition", '{"at_timestamp": "06/25/2020"}', "AT_TIMESTAMP:<ISO 8601 with time zone>"),
        ("endpoint", "kinesis.eu-west-1.amazonaws.com", "https://kinesis.eu-west-1.amazonaws.com"),
        ("consumerType", "x", None),
        ("kinesis.consumerType", "SubscribeToShard", "enhanced fan-out is not used"),
        ("consumerMode", "efo", "enhanced fan-out is not used"),
        ("kinesis.stsRoleArn", ROLE, f'.option("roleArn", "{ROLE}")'),
        ("startingPosition", "earliest", 'the Qubole connector\'s; here .option("startPosition", "TRIM_HORIZON")'),
        ("startingOffsets", "earliest", 'an option of Kafka\'s; here .option("startPosition", "TRIM_HORIZON")'),
        ("startingOffsets", '{"orders":{"0":23}}', "AT_TIMESTAMP:<ISO 8601 with time zone>"),
        ("startingTimestamp", "1769846400000", '.option("startPosition", "AT_TIMESTAMP:2026-01-31T08:00:00Z")'),
        ("startingTimestamp", "soon", "AT_TIMESTAMP:<ISO 8601 with time zone>"),
        ("subscribe", "orders,audit", '.option("stream", "orders,audit")'),
        ("maxOffsetsPerTrigger", "1000", '.option("maxRecordsPerTrigger", "1000")'),
        ("kafka.bootstrap.servers", "b:9092", "no brokers"),
        ("kinesis.executor.maxFetchTimeInMs", "1000", '.option("maxSpanPerTrigger", "<of arrival time: 10m>")'),
        ("kinesis.application", "audit", "options have no prefix here: application"),
        ("kinesis.nothing", "x", "no such option"),
        ("kinesis.secret", "s3cr3t", "no such option"),
        ("awsAccessKeyId", "AKIA1234", "no keys in options"),
        ("awsAccessKey", "AKIA1234", "no keys in options"),
        ("awsSecretKey", "s3cr3t", "no keys in options"),
    ],
)
def test_another_connectors_option_is_refused_with_our_option(name: str, value: str, says: str | None) -> None:
    with pytest.raises(SettingsError, match=re.escape(says or "no such option")) as refused:
        parse_options({"stream": "orders", name: value}, None)
    assert "AKIA" not in str(refused.value)
    assert "s3cr3t" not in str(refused.value)


def test_replacement_for_each_foreign_option_exists() -> None:
    ours = {option.name for option in OPTIONS}
    assert all(each.here in ours for each in THEIRS if each.here.isidentifier())
