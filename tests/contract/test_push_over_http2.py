"""The same reader over HTTP/2, as AWS speaks it: on the embedded AWS, and with TLS and ALPN against a small server."""

from __future__ import annotations

import itertools
import socket
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.config import Config
from sublet.aws.push.push_connection import ConnectionLost, Network, PushConnection, tls_context
from sublet.aws.push.push_http import WINDOW, Http1Reply, Http2Reply, Request
from sublet.aws.push.push_requests import PushRequests
from sublet.aws.push.pushes import KinesisPushes, KinesisSubscription
from sublet.decisions.session.push import PushEnd
from sublet.decisions.session.read_position import IteratorType, ReadPosition, after
from sublet.errors import ShardNotFound
from sublet.ports import Pushed
from sublet.protocol.event_stream import message
from sublet.testing.memory import MemoryStream

from infra.local.embedded import EmbeddedAws
from infra.local.fan_out import Fault
from tests.contract.push_benches import (
    FIRST,
    PATIENCE,
    SECOND,
    THIRD,
    Bench,
    data_of,
    end_of,
    interrupted_while_it_waits,
    served_bench,
)
from tests.doubles.http2_server import Http2Server, TlsProxy, certificate

pytestmark = pytest.mark.emulator


@pytest.fixture
def over_http2(embedded_aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    for name, value in embedded_aws.environment.items():
        monkeypatch.setenv(name, value)
    with served_bench(embedded_aws) as bench:
        pushes = bench.pushes.real
        assert isinstance(pushes, KinesisPushes)
        requests = pushes._requests
        vars(requests)["_network"] = replace(requests._network, is_http2_known=True)
        yield bench
        bench.close()


def test_records_lapses_and_the_end_of_a_shard(over_http2: Bench) -> None:
    assert over_http2.fan_out is not None
    over_http2.fan_out.takes(
        lasts=timedelta(milliseconds=200),
        again_after=timedelta(0),
        quiet_event_every=timedelta(milliseconds=50),
    )
    reader = over_http2.reader()
    until = time.monotonic() + PATIENCE.total_seconds()
    put = itertools.count()
    while len(over_http2.pushes.asked) < 3:
        data = b"%d" % next(put)
        over_http2.put(data)
        assert data_of(reader, 1) == [data]
        assert time.monotonic() < until, "the first subscriptions have not lapsed"
    over_http2.split()
    assert {child.shard_id for child in end_of(reader)[1]} == {SECOND, THIRD}


def test_reader_gets_more_than_the_flow_control_window(over_http2: Bench) -> None:
    assert over_http2.fan_out is not None
    over_http2.fan_out.takes(bytes_a_second=100 * 2**20)
    reader = over_http2.reader()
    for _ in range(4):
        over_http2.put(b"x" * (WINDOW - 4096))
    assert sum(len(data) for data in data_of(reader, 4)) == 4 * (WINDOW - 4096)


@pytest.mark.parametrize("fault", [Fault("cut", at=1), Fault("exception", at=1), Fault("damage", at=1)], ids=str)
def test_reader_loses_and_repeats_nothing_after_a_fault(over_http2: Bench, fault: Fault) -> None:
    assert over_http2.fan_out is not None
    over_http2.fan_out.takes(again_after=timedelta(0), quiet_event_every=timedelta(milliseconds=100))
    over_http2.fan_out.plant(fault)
    reader = over_http2.reader()
    first = over_http2.put(b"1")
    over_http2.put(b"2")
    assert data_of(reader, 2) == [b"1", b"2"]
    assert data_of(over_http2.reader(after(first)), 1) == [b"2"]


def test_an_error_is_named(over_http2: Bench) -> None:
    with pytest.raises(ShardNotFound):
        over_http2.reader(shard_id="shardId-000000000099").read(10)


def test_an_interrupt_wakes_a_waiting_reader_at_once(over_http2: Bench) -> None:
    assert not interrupted_while_it_waits(over_http2).is_alive()


def test_tls_negotiates_http2(tmp_path: Path) -> None:
    """And verifies the certificate."""
    authority, chain = certificate(tmp_path)
    with Http2Server(chain, [b"a" * 100_000, b"b" * 2_000_000]) as server:
        request = Request(server.url, {"Host": "ignored", "X-Amz-Date": "now"}, b"{}")
        context = tls_context(str(authority), None, is_verified=True, is_http2=True)
        connection = PushConnection(request, Network(lambda: context))
        assert connection.head().status == 200
        assert isinstance(connection._reply, Http2Reply)
        body = b""
        while not connection.is_over:
            body += connection.receive(5) or b""
        assert body == b"a" * 100_000 + b"b" * 2_000_000
        connection.close()
        assert server.asked[0][b":path"] == b"/"
        assert b"host" not in server.asked[0]
        strangers = tls_context(None, None, is_verified=True, is_http2=True)
        with pytest.raises(ssl.SSLCertVerificationError):
            PushConnection(request, Network(lambda: strangers))


def test_a_connection_that_ends_early_is_lost(tmp_path: Path) -> None:
    authority, chain = certificate(tmp_path)
    context = tls_context(str(authority), None, is_verified=True, is_http2=True)
    with Http2Server(chain, [b"a"], is_cut=True) as server:
        connection = PushConnection(Request(server.url, {}, b"{}"), Network(lambda: context))
        connection.head()
        with pytest.raises((ConnectionLost, ssl.SSLError)):
            _read_on(connection)
        connection.close()


class Hurrying:
    """A steady clock on which a second passes whenever it is asked for the time."""

    def __init__(self) -> None:
        self._now = datetime(2026, 1, 31, tzinfo=UTC)

    def steady(self) -> datetime:
        self._now += timedelta(seconds=1)
        return self._now


def hurried(authority: Path) -> Network:
    context = tls_context(str(authority), None, is_verified=True, is_http2=True)
    return Network(lambda: context, steady=Hurrying().steady)


def test_pings_instead_of_a_reply_are_given_up(tmp_path: Path) -> None:
    authority, chain = certificate(tmp_path)
    with Http2Server(chain, [], pings=True) as server:
        connection = PushConnection(Request(server.url, {}, b"{}"), hurried(authority))
        with pytest.raises(ConnectionLost, match="no reply within 10 seconds"):
            connection.head()
        connection.close()


def test_pings_after_half_an_event_are_given_up(tmp_path: Path) -> None:
    authority, chain = certificate(tmp_path)
    with Http2Server(chain, [event("SubscribeToShardEvent", b"{}")[:40]], pings=True) as server:
        connection = PushConnection(Request(server.url, {}, b"{}"), hurried(authority))
        assert connection.head().status == 200
        subscription = KinesisSubscription(cast("KinesisPushes", None), FIRST, connection)
        while not subscription.wait(timedelta(seconds=5)):
            pass
        assert subscription.next() is PushEnd.CUT
        subscription.close()


def test_interim_replies_over_http1_are_passed_over_and_given_up_if_nothing_follows() -> None:
    request, interim = (
        Request(urlsplit("http://localhost/"), {}, b"{}"),
        b"HTTP/1.1 10%d Wait\r\nlink: </x>\r\n\r\n",
    )
    reply = Http1Reply(request)
    assert reply.feed(interim % 0 + interim % 3 + interim % 2) == b""
    reply.feed(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n")
    assert reply.head is not None
    assert reply.head.status == 200

    def serve() -> None:
        client, _ = listening.accept()
        with client, suppress(OSError):
            while True:
                client.sendall(interim % 2)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, daemon=True).start()
        url = urlsplit(f"http://127.0.0.1:{listening.getsockname()[1]}/")
        connection = PushConnection(
            Request(url, {}, b"{}"), Network(ssl.create_default_context, steady=Hurrying().steady)
        )
        with pytest.raises(ConnectionLost, match="no reply within 10 seconds"):
            connection.head()
        connection.close()


def test_an_event_of_an_unknown_type_is_passed_over(tmp_path: Path) -> None:
    """It was taken for the end of the shard, because it has no continuation."""
    authority, chain = certificate(tmp_path)
    known = b'{"Records": [], "MillisBehindLatest": 7, "ContinuationSequenceNumber": "1"}'
    parts = [event("HeartbeatEvent", b'{"Beat": 1}'), event("SubscribeToShardEvent", known)]
    with Http2Server(chain, parts) as server:
        connection = PushConnection(Request(server.url, {}, b"{}"), hurried(authority))
        connection.head()
        pushes = KinesisPushes(*cast("Any", (None, MemoryStream(name="events"), "events", None)))
        pushed = KinesisSubscription(pushes, FIRST, connection).next()
        connection.close()
    assert isinstance(pushed, Pushed)
    assert (pushed.page.millis_behind_latest, pushed.continuation) == (7, "1")


def event(kind: str, payload: bytes) -> bytes:
    return message({":message-type": "event", ":event-type": kind}, payload)


def test_a_proxy_with_https_is_spoken_to_over_tls_by_the_rules_of_proxies_config(tmp_path: Path) -> None:
    """The password went to the proxy in clear. The proxy has a certificate of its own, which only proxies_config
    names.
    """
    of_proxy, of_service = tmp_path / "proxy", tmp_path / "service"
    of_proxy.mkdir()
    of_service.mkdir()
    (proxy_authority, proxy_chain), (authority, chain) = certificate(of_proxy), certificate(of_service)
    with TlsProxy(proxy_chain) as proxy, Http2Server(chain, [b"a" * 100_000, b"b" * 2_000_000]) as server:
        proxies = {"https": f"https://user:p%40ss@localhost:{proxy.port}"}

        def requests(settings: Any) -> PushRequests:
            config = Config(proxies=proxies, proxies_config=settings)
            client = boto3.client(
                "kinesis",
                "us-east-1",
                endpoint_url=server.url.geturl(),
                verify=str(authority),
                config=config,
                aws_access_key_id="a",
                aws_secret_access_key="b",
            )
            return PushRequests(client)

        trusted = requests({"proxy_ca_bundle": str(proxy_authority)})
        position = ReadPosition(IteratorType.LATEST)
        connection = trusted.connection(
            trusted.signed("arn:aws:kinesis:us-east-1:1:stream/s/consumer/c:1", FIRST, position)
        )
        assert connection.head().status == 200
        body = b""
        while not connection.is_over:
            body += connection.receive(5) or b""
        assert body == b"a" * 100_000 + b"b" * 2_000_000
        assert connection.receive(0) == b""
        waiting = threading.Thread(target=connection.interrupt)
        waiting.start()
        waiting.join()
        connection.close()
        (head,) = proxy.asked
        assert head.startswith(f"CONNECT localhost:{server.url.port} HTTP/1.1")
        assert b64encode(b"user:p@ss").decode() in head
        assert proxy.wire[0].startswith(b"\x16\x03"), "TLS' first bytes"
        assert server.asked[0][b":path"] == b"/"
        with pytest.raises(ssl.SSLCertVerificationError):
            requests({}).connection(Request(server.url, {}, b"{}"))


def _read_on(connection: PushConnection) -> None:
    while not connection.is_over:
        assert connection.receive(5) is not None
