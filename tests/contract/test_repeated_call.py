"""Calls sent as botocore sent the previous one: the bytes on the wire, the handling of each answer, and when it is not
done.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from sublet.aws.clients import dynamodb_client, kinesis_client, kinesis_poll_client
from sublet.aws.kinesis.repeated_call import sent
from sublet.aws.kinesis.stream import KinesisStream
from sublet.aws.tables.lease_table import DynamoDbLeaseTable
from sublet.decisions.session.read_position import IteratorType, ReadPosition
from sublet.errors import AwsNotConfigured, StreamAccessDenied, StreamError
from sublet.ports import Applied, PollRefusal, Refusal, Refused, Unanswered
from sublet.protocol.checkpoint import TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import encode_row
from sublet.protocol.lease_writes import heartbeat
from sublet.protocol.records import GetRecordsReply
from sublet.settings import Settings

from tests.contract.scripted_service import HANG_UP, Json, Reply, ScriptedService, cut, error, reset

POLLED: Json = {"Records": [], "NextShardIterator": "next" * 20, "MillisBehindLatest": 0}
LEASE = Lease(
    "shardId-0",
    TRIM_HORIZON,
    lease_counter=1,
    lease_owner="worker",
    pending_checkpoint=Checkpoint("7", 1),
    pending_checkpoint_state=b"\x00state\xff",
)
ITEM: Json = {**encode_row(LEASE), "pendingCheckpointState": {"B": "AHN0YXRl/w=="}}
ROW: Json = {"Attributes": ITEM}


class Wire:
    """Requests as they are sent, botocore's and the repeated ones, which have a plain dict of headers."""

    def __init__(self, client: Any, operation: str) -> None:
        self.requests: list[Any] = []
        service = client.meta.service_model.service_id.hyphenize()
        client.meta.events.register(f"before-send.{service}.{operation}", self._note)

    def _note(self, request: Any, **_: Any) -> None:
        self.requests.append(request)

    @property
    def repeated(self) -> list[bool]:
        return [type(request.headers) is dict for request in self.requests]


class Polling:
    def __init__(self) -> None:
        self.client: Any = kinesis_poll_client()
        self.stream = KinesisStream(kinesis_client(), self.client, Settings(application="app", stream="orders"))
        self.wire = Wire(self.client, "GetRecords")

    def poll(self, iterator: str = "iterator") -> GetRecordsReply | Refusal:
        return self.stream.poll(f"shardId-0 {iterator}", 10)


class Heartbeating:
    def __init__(self) -> None:
        self.client = dynamodb_client()
        self.table = DynamoDbLeaseTable(self.client, "leases")
        self.wire = Wire(self.client, "UpdateItem")

    def beat(self) -> Applied | Refused:
        return self.table.apply(heartbeat(LEASE))


@pytest.fixture
def polling(service: ScriptedService) -> Polling:
    service.will("GetRecords", POLLED)
    polling = Polling()
    assert isinstance(polling.poll(), GetRecordsReply)
    return polling


@pytest.fixture
def heartbeating(service: ScriptedService) -> Heartbeating:
    service.will("UpdateItem", ROW)
    heartbeating = Heartbeating()
    assert isinstance(heartbeating.beat(), Applied)
    return heartbeating


def by_botocore(headers: Mapping[str, str], body: bytes, url: str, credentials: Credentials) -> str:
    """The Authorization that botocore makes for it, at the time in its headers."""
    names = headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
    request = AWSRequest("POST", url, {name: headers[name] for name in names if name != "host"}, body)
    request.context["timestamp"] = headers["x-amz-date"]
    auth = SigV4Auth(credentials.get_frozen_credentials(), "kinesis", "us-east-1")
    signature = auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)
    return f"Signature={signature}"


@pytest.mark.parametrize("token", [None, "a session's token"])
def test_repeated_call_signs_other_parameters_as_botocore_does(
    service: ScriptedService, monkeypatch: pytest.MonkeyPatch, token: str | None
) -> None:
    if token is not None:
        monkeypatch.setenv("AWS_SESSION_TOKEN", token)
    service.will("GetRecords", POLLED)
    polling = Polling()
    for each in ("first", "second", "third"):
        replies = [polling.poll(each) for _ in range(2)]
        found = [reply.next_iterator for reply in replies if isinstance(reply, GetRecordsReply)]
        assert found == ["shardId-0 " + "next" * 20] * 2
    assert polling.wire.repeated == [False, *[True] * 5]
    assert [asked["ShardIterator"] for asked in service.asked("GetRecords")[::2]] == [
        "first",
        "second",
        "third",
    ]
    own, again = polling.wire.requests[0], polling.wire.requests[-1]
    names = {name.lower() for name in own.headers}
    assert set(again.headers) == names
    assert again.headers["authorization"].endswith(
        by_botocore(again.headers, again.body, again.url, Credentials("test", "test", token))
    )


def kind(came: object) -> object:
    """Of an unanswered poll its class: the text says how often botocore tried."""
    return type(came) if isinstance(came, Unanswered) else came


@pytest.mark.parametrize(
    ("answer", "comes"),
    [
        (error("ProvisionedThroughputExceededException"), PollRefusal.THROTTLED),
        (error("ExpiredIteratorException"), PollRefusal.ITERATOR_EXPIRED),
        (error("InternalFailure", status=500), Unanswered),
        (cut(POLLED), Unanswered),
        (reset(POLLED), Unanswered),
        (HANG_UP, Unanswered),
        (error("AccessDeniedException"), StreamAccessDenied),
    ],
)
def test_failed_repeated_poll_equals_botocores_and_the_next_goes_through_it(
    service: ScriptedService,
    polling: Polling,
    answer: Reply,
    comes: PollRefusal | type[Unanswered | Exception],
) -> None:
    service.will("GetRecords", answer)
    assert kind(outcome(Polling())) == kind(outcome(polling)) == comes
    assert polling.wire.repeated[1]
    service.will("GetRecords", POLLED)
    before = len(polling.wire.requests)
    assert isinstance(polling.poll(), GetRecordsReply)
    assert isinstance(polling.poll(), GetRecordsReply)
    assert polling.wire.repeated[before:] == [False, True]


def test_a_reply_that_we_cannot_read_is_botocores_to_judge(service: ScriptedService, polling: Polling) -> None:
    service.will("GetRecords", {"Records": 7})
    assert outcome(Polling()) == outcome(polling)
    assert polling.wire.repeated == [False, True, False]


def outcome(polling: Polling) -> object:
    try:
        return polling.poll()
    except Exception as problem:  # noqa: BLE001 - the test compares the exceptions
        return type(problem)


def test_renewed_credentials_go_through_botocore_once(polling: Polling) -> None:
    renewed = Credentials("renewed", "another", "token")
    polling.client._request_signer._credentials = renewed
    polling.poll()
    polling.poll("again")
    assert polling.wire.repeated == [False, False, True]
    last = polling.wire.requests[-1]
    assert last.headers["x-amz-security-token"] == "token"
    assert last.headers["authorization"].endswith(by_botocore(last.headers, last.body, last.url, renewed))


def test_a_heartbeat_is_repeated_and_its_row_is_read(heartbeating: Heartbeating) -> None:
    assert heartbeating.beat() == heartbeating.beat()
    assert heartbeating.wire.repeated == [False, True, True]


@pytest.mark.parametrize("answer", [error("InternalServerError", status=500), cut(ROW), HANG_UP, Reply(200, {})])
def test_a_write_that_comes_to_anything_but_success_is_asked_for_again(
    service: ScriptedService, heartbeating: Heartbeating, answer: Reply
) -> None:
    service.will("UpdateItem", answer, ROW)
    assert isinstance(heartbeating.beat(), Applied)
    assert heartbeating.wire.repeated == [False, True, False]


def test_a_refusal_tells_the_row(service: ScriptedService, heartbeating: Heartbeating) -> None:
    refusal = {"__type": "ConditionalCheckFailedException", "message": "no", "Item": ITEM}
    service.will("UpdateItem", Reply(400, refusal))
    assert heartbeating.beat() == Refused(LEASE)


@pytest.mark.parametrize(
    "change",
    [
        lambda request: request.headers.__setitem__("X-Amzn-Trace-Id", b"Root=1"),
        lambda request: request.headers.__setitem__("X-Amz-Date", b"20260101T000000Z"),
        lambda request: setattr(request, "url", f"{request.url}?what=else"),
        lambda request: setattr(request, "body", b"{}"),
        lambda request: request.headers.__setitem__("Content-Type", b"application/cbor"),
        lambda request: request.headers.__setitem__("Authorization", b"Bearer token"),
    ],
)
def test_a_request_whose_signature_we_do_not_come_to_is_not_repeated(polling: Polling, change: Any) -> None:
    request = polling.wire.requests[0]
    credentials = Credentials("test", "test", os.environ.get("AWS_SESSION_TOKEN"))
    assert sent(request, credentials) is not None
    change(request)
    assert sent(request, credentials) is None


def test_a_provider_that_fails_between_two_calls_is_named(polling: Polling) -> None:
    class Away:
        def get_frozen_credentials(self) -> None:
            raise FileNotFoundError(2, "No such file or directory", "/var/run/secrets/token")

    polling.client._request_signer._credentials = Away()
    with pytest.raises(AwsNotConfigured, match="FileNotFoundError"):
        polling.poll()


class Opening:
    def __init__(self) -> None:
        client: Any = kinesis_client()
        self.stream = KinesisStream(client, kinesis_poll_client(), Settings(application="app", stream="orders"))
        self.wire = Wire(client, "GetShardIterator")


POSITIONS = (
    ReadPosition(IteratorType.TRIM_HORIZON),
    ReadPosition(IteratorType.LATEST),
    ReadPosition(IteratorType.AFTER_SEQUENCE_NUMBER, "4968" * 14),
    ReadPosition(IteratorType.AT_TIMESTAMP, at=datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=3)))),
)


def test_repeated_open_asks_for_the_same_as_botocore(service: ScriptedService) -> None:
    """By its own first call. Older botocore sends whole seconds, so the time here is one."""
    service.will("GetShardIterator", {"ShardIterator": "there"})
    opening = Opening()
    opening.stream.open("shardId-0", POSITIONS[0])
    for at in POSITIONS:
        assert Opening().stream.open("shardId-1", at) == opening.stream.open("shardId-1", at) == "shardId-1 there"
        botocores, repeated = service.asked("GetShardIterator")[-2:]
        assert botocores == repeated
    assert opening.wire.repeated == [False, *[True] * len(POSITIONS)]


@pytest.mark.parametrize(
    "answer", [error("ProvisionedThroughputExceededException"), error("InternalFailure", status=500), HANG_UP]
)
def test_failed_repeated_open_goes_through_botocore_which_tries_again(
    service: ScriptedService, answer: Reply, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)  # botocore's backoff
    there: Json = {"ShardIterator": "there"}
    service.will("GetShardIterator", there)
    opening = Opening()
    opening.stream.open("shardId-0", POSITIONS[0])
    service.will("GetShardIterator", answer, answer, there)
    assert opening.stream.open("shardId-0", POSITIONS[0]) == "shardId-0 there"
    assert opening.wire.repeated == [False, True, False, False]


def test_shard_that_is_gone_is_named_by_a_repeated_open(service: ScriptedService) -> None:
    service.will("GetShardIterator", {"ShardIterator": "there"})
    opening = Opening()
    opening.stream.open("shardId-0", POSITIONS[0])
    service.will("GetShardIterator", error("ResourceNotFoundException", "Shard shardId-0 in stream orders not found"))
    with pytest.raises(StreamError):
        opening.stream.open("shardId-0", POSITIONS[0])


def test_streams_that_share_a_client_repeat_their_own_requests(service: ScriptedService) -> None:
    """Kinesis has a host for each account: another stream's request may go to another one."""
    service.will("GetRecords", POLLED)
    service.will("GetShardIterator", {"ShardIterator": "there"})
    client, poll_client = kinesis_client(), kinesis_poll_client()
    ours, theirs = (
        KinesisStream(
            client,
            poll_client,
            Settings(
                application="app",
                stream="orders",
                stream_arn=f"arn:aws:kinesis:us-east-1:{account}:stream/orders",
            ),
        )
        for account in ("111111111111", "222222222222")
    )
    opened, polled = Wire(client, "GetShardIterator"), Wire(poll_client, "GetRecords")
    for stream in (theirs, ours, ours, theirs):
        stream.poll(stream.open("shardId-0", POSITIONS[0]), 10)
    assert opened.repeated == polled.repeated == [False, False, True, True]
