"""The Streams port, which finds the streams that an application of several reads: in memory, and over boto3 on moto."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from sublet.aws import clients
from sublet.aws.account import AwsAccount
from sublet.aws.clients import dynamodb_client, kinesis_client, kinesis_poll_client
from sublet.aws.kinesis.several_streams import AwsStreams
from sublet.aws.kinesis.stream import KinesisStream
from sublet.aws.tables.delete_tables import delete_tables
from sublet.aws.tables.lease_table import DynamoDbLeaseTable
from sublet.decisions.session.read_position import IteratorType, ReadPosition
from sublet.errors import LeaseTableNotFound, SettingsError, StreamAccessDenied, StreamNotFound
from sublet.ports import PollRefusal, Stream, Streams
from sublet.protocol.stream_info import StreamDescription
from sublet.protocol.stream_key import StreamKey, own_id, stream_key_of
from sublet.settings import Mode, Reading, Settings, StartKind, StreamChoice
from sublet.system.threads import ThreadTasks
from sublet.testing.memory import MemoryStream, MemoryStreams

pytestmark = pytest.mark.emulator

Make = Callable[[str], Streams]
NAMES = ("orders", "orders-eu", "payments")


def settings_of(text: str) -> Settings:
    return Settings(application="audit", streams=StreamChoice.parse(text))


@pytest.fixture(params=["memory", "moto"])
def make(request: pytest.FixtureRequest, moto_aws: None) -> Make:
    """Three streams."""
    if request.param == "memory":
        streams: dict[str, Stream] = {name: MemoryStream(2, name=name) for name in NAMES}
        return lambda text: MemoryStreams(StreamChoice.parse(text), streams)
    kinesis = boto3.client("kinesis")
    for name in NAMES:
        kinesis.create_stream(StreamName=name, ShardCount=2)
    return lambda text: AwsStreams(kinesis_client(), kinesis_poll_client(), settings_of(text))


def test_streams_are_found_by_name_and_pattern(make: Make) -> None:
    found = make("orders*@LATEST,payments,returns").find()
    assert [each.stream.stream for each in found.streams] == ["orders", "orders-eu", "payments"]
    assert [None if each.start is None else each.start.kind for each in found.streams] == [
        StartKind.LATEST,
        StartKind.LATEST,
        None,
    ]
    assert found.missing == ("returns",)
    assert all(each.stream.created_at is not None for each in found.streams)


def test_a_stream_is_found_by_its_arn_and_by_kcls_identifier(make: Make) -> None:
    (orders,) = make("orders").find().streams
    arn = make("orders").arn(orders.stream)
    assert [each.stream for each in make(arn).find().streams] == [orders.stream]
    assert [each.stream for each in make(f"{orders.stream}@LATEST").find().streams] == [orders.stream]


def test_a_stream_that_is_not_described_counts_as_it_was_known(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream of another account, named by ARN: Kinesis describes it by itself, and may refuse that."""
    arn = "arn:aws:kinesis:us-east-1:210987654321:stream/theirs"
    theirs = StreamKey("210987654321", "theirs", 1_700_000_000)

    def refuses(*_: object) -> StreamDescription:
        raise StreamAccessDenied("no policy allows kinesis:DescribeStreamSummary")

    (orders,), streams = make("orders").find().streams, make(f"orders,{arn}")
    if isinstance(streams, MemoryStreams):
        monkeypatch.setitem(streams._streams, "theirs", MemoryStream(1, name="theirs"))
        monkeypatch.setattr(streams._streams["theirs"], "describe", refuses)
    else:
        described = KinesisStream.describe
        monkeypatch.setattr(
            KinesisStream, "describe", lambda self: refuses() if self._name == "theirs" else described(self)
        )
    with pytest.raises(StreamAccessDenied):
        streams.find()
    with pytest.raises(StreamAccessDenied):
        streams.find([orders.stream])
    assert [each.stream for each in streams.find([orders.stream, theirs]).streams] == [orders.stream, theirs]


def test_shards_are_named_by_stream_and_read(make: Make) -> None:
    streams = make("orders")
    (orders,) = streams.find().streams
    stream = streams.of(orders.stream)
    shards = stream.list_shards()
    assert [own_id(shard.shard_id) for shard in shards] == ["shardId-000000000000", "shardId-000000000001"]
    assert {stream_key_of(shard.shard_id) for shard in shards} == {orders.stream}
    assert stream.has_shard(shards[0].shard_id)
    assert not stream.has_shard(f"{orders.stream}:shardId-000000000009")
    page = stream.reader(shards[0].shard_id, ReadPosition(IteratorType.TRIM_HORIZON)).read(10)
    assert not isinstance(page, PollRefusal)
    assert StreamKey.of(stream.describe().identity) == orders.stream


def test_a_stream_of_the_name_created_at_another_time_is_another(make: Make) -> None:
    streams = make("orders")
    (orders,) = streams.find().streams
    before = StreamKey(orders.stream.account, orders.stream.stream, orders.stream.epoch - 3600)
    with pytest.raises(StreamNotFound):
        streams.of(before).describe()
    with pytest.raises(StreamNotFound):
        streams.of(StreamKey(orders.stream.account, "returns", 1_700_000_000)).describe()


def test_kcls_own_number_of_a_stream_is_taken_on_trust(make: Make) -> None:
    streams = make("orders")
    (orders,) = streams.find().streams
    streams.of(StreamKey(orders.stream.account, "orders", 7)).describe()


def test_streams_are_found_on_every_page_of_the_listing(moto_aws: None) -> None:
    kinesis = boto3.client("kinesis")
    for n in range(3):
        kinesis.create_stream(StreamName=f"orders-{n}", ShardCount=1)
    client: Any = kinesis_client()
    with Stubber(client) as stub:
        pages = [["orders-0", "orders-1"], ["orders-2"]]
        for number, page in enumerate(pages):
            start = {} if number == 0 else {"ExclusiveStartStreamName": "orders-1"}
            summaries = [
                {
                    "StreamName": name,
                    "StreamARN": f"arn:aws:kinesis:us-east-1:123456789012:stream/{name}",
                    "StreamStatus": "ACTIVE",
                    "StreamCreationTimestamp": datetime(2026, 1, 31, tzinfo=UTC),
                }
                for name in page
            ]
            reply = {"StreamNames": page, "HasMoreStreams": number == 0, "StreamSummaries": summaries}
            stub.add_response("list_streams", reply, {"Limit": 1000, **start})
        found = AwsStreams(client, kinesis_poll_client(), settings_of("orders-*")).find()
    assert [each.stream.stream for each in found.streams] == ["orders-0", "orders-1", "orders-2"]


def test_streams_are_found_by_tag_page_by_page(moto_aws: None) -> None:
    """moto knows no tags of streams there."""
    kinesis = boto3.client("kinesis")
    for name in NAMES:
        kinesis.create_stream(StreamName=name, ShardCount=1)
    asked = {
        "ResourceTypeFilters": ["kinesis:stream"],
        "TagFilters": [{"Key": "team", "Values": ["billing"]}],
    }
    arn = "arn:aws:kinesis:us-east-1:123456789012:stream/{}"
    client: Any = clients.tagging_client()
    with Stubber(client) as stub:
        for token, name in ((None, "payments"), ("more", "orders")):
            tagged = [{"ResourceARN": arn.format(name)}]
            reply = {"ResourceTagMappingList": tagged, "PaginationToken": "" if token else "more"}
            stub.add_response("get_resources", reply, asked if token is None else {**asked, "PaginationToken": token})
        choice = settings_of("tag:team=billing")
        found = AwsStreams(kinesis_client(), kinesis_poll_client(), choice, lambda: client).find()
    assert [each.stream.stream for each in found.streams] == ["orders", "payments"]


def test_streams_of_another_region_are_refused_at_the_start(moto_aws: None) -> None:
    with pytest.raises(SettingsError, match="streams of one region, which is us-east-1 here"):
        AwsStreams(
            kinesis_client(),
            kinesis_poll_client(),
            settings_of("arn:aws:kinesis:eu-west-1:123456789012:stream/orders"),
        )


THEIRS = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"


@pytest.mark.parametrize(
    "settings",
    [
        settings_of(THEIRS),
        Settings(application="audit", stream="orders", stream_arn=THEIRS),
        Settings(
            application="audit",
            stream="orders",
            mode=Mode.CONTINUOUS,
            reading=Reading.FAN_OUT,
            fan_out_consumer=f"{THEIRS}/consumer/audit:1700000000",
        ),
    ],
    ids=["several", "one", "a consumer"],
)
def test_no_table_is_made_for_streams_of_another_region(moto_aws: None, settings: Settings) -> None:
    account = AwsAccount()
    with pytest.raises(SettingsError, match="which is us-east-1 here"):
        account.compose(settings, ThreadTasks().signal(), may_create=True, say=print)
    assert list(account.tables()) == []


@pytest.mark.parametrize("arn", [THEIRS, "arn:aws:kinesis:us-east-1:999999999999:stream/orders"])
def test_no_consumer_is_registered_with_another_stream_of_the_name(moto_aws: None, arn: str) -> None:
    """It would be paid for, and its records would be read instead."""
    client = kinesis_client()
    client.create_stream(StreamName="orders", ShardCount=1)
    own = client.describe_stream_summary(StreamName="orders")["StreamDescriptionSummary"]["StreamARN"]
    settings = Settings(application="audit", stream="orders", stream_arn=arn)
    with pytest.raises((SettingsError, StreamNotFound)):
        AwsAccount().registered(settings, "audit", ThreadTasks().signal())
    assert client.list_stream_consumers(StreamARN=own)["Consumers"] == []


def test_not_found_errors_name_the_region_and_the_account_if_known(
    moto_aws: None,
) -> None:
    """Kinesis names the account, DynamoDB does not."""
    gone = Settings(application="audit", stream="nowhere")
    with pytest.raises(StreamNotFound, match="nowhere in region us-east-1 of account 123456789012; check its name"):
        KinesisStream(kinesis_client(), kinesis_poll_client(), gone).list_shards()
    with pytest.raises(LeaseTableNotFound, match="lease table audit in region us-east-1 of this account; check"):
        DynamoDbLeaseTable(dynamodb_client(), "audit").scan()
    with pytest.raises(LeaseTableNotFound, match="consumer audit in region us-east-1 of this account: it has"):
        delete_tables(dynamodb_client(), gone)
