"""The same reader over HTTP/2, as AWS speaks it: on the embedded AWS, and with TLS and ALPN against a small server."""

from __future__ import annotations

import itertools
import ssl
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from sublet.aws.push_connection import ConnectionLost, Network, PushConnection, tls_context
from sublet.aws.push_http import WINDOW, Http2Reply, Request
from sublet.aws.pushes import KinesisPushes
from sublet.decisions.read_position import after
from sublet.errors import ShardNotFound

from infra.local.embedded import EmbeddedAws
from infra.local.fan_out import Fault
from tests.contract.push_benches import (
    PATIENCE,
    SECOND,
    THIRD,
    Bench,
    data_of,
    end_of,
    interrupted_while_it_waits,
    served_bench,
)
from tests.doubles.http2_server import Http2Server, certificate

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


def test_more_than_the_window_comes_as_it_is_read(over_http2: Bench) -> None:
    assert over_http2.fan_out is not None
    over_http2.fan_out.takes(bytes_a_second=100 * 2**20)
    reader = over_http2.reader()
    for _ in range(4):
        over_http2.put(b"x" * (WINDOW - 4096))
    assert sum(len(data) for data in data_of(reader, 4)) == 4 * (WINDOW - 4096)


@pytest.mark.parametrize(
    "fault", [Fault("cut", at=1), Fault("exception", at=1), Fault("damage", at=1)], ids=str
)
def test_what_goes_wrong_loses_and_repeats_nothing(over_http2: Bench, fault: Fault) -> None:
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


def _read_on(connection: PushConnection) -> None:
    while not connection.is_over:
        assert connection.receive(5) is not None
