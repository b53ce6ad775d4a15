"""A subscription (SubscribeToShard) through the bad network: passed on as its events come, held up, or cut in the
middle of one."""

from __future__ import annotations

import http.client
import time
from http import HTTPStatus
from typing import Protocol
from urllib.parse import urlsplit

from benchmarks.counting_proxy import Connection, Reply
from tests.chaos.plan import Trouble

SUBSCRIBE = "SubscribeToShard"
PIECE = 2**16
SILENCE_MAX = 30.0
"""Seconds; the service sends an empty event every five."""

CUTS = frozenset({Trouble.LOSE_REQUEST, Trouble.LOSE_REPLY, Trouble.TRUNCATE})
"""What these do to a subscription that goes on already."""


class Weather(Protocol):
    def strike(self, *, is_request: bool = True) -> Trouble | None: ...

    def delay(self) -> float: ...

    def subscribed(self) -> None: ...


def pass_on(connection: Connection, upstream: str, body: bytes, weather: Weather, *, is_lost: bool) -> None:
    """Until the subscription ends or is cut. `is_lost`: the service subscribes, and the client does not learn it."""
    service = http.client.HTTPConnection(urlsplit(upstream).netloc, timeout=SILENCE_MAX)
    try:
        service.request("POST", connection.path, body, dict(connection.headers.items()))
        reply = service.getresponse()
        if is_lost:
            connection.hang_up()
            return time.sleep(weather.delay())
        if reply.status != HTTPStatus.OK:
            return connection.answer(Reply(reply.status, reply.getheaders(), reply.read()))
        weather.subscribed()
        connection.begin_chunks(reply.status, reply.getheaders())
        return _pass_events(connection, reply, weather)
    except http.client.HTTPException:  # the service has ended
        return connection.hang_up()
    finally:
        service.close()


def _pass_events(connection: Connection, reply: http.client.HTTPResponse, weather: Weather) -> None:
    while piece := reply.read1(PIECE):
        trouble = weather.strike(is_request=False)
        if trouble in CUTS:
            connection.write_chunk(piece[: len(piece) // 2])
            return connection.hang_up()
        if trouble is Trouble.DELAY:
            time.sleep(weather.delay())
        connection.write_chunk(piece)
    return connection.write_chunk(b"")
