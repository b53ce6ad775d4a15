"""The health server has two pages for an orchestrator, on loopback, and never shows a record's content."""

from __future__ import annotations

import json
import socket
import threading
import urllib.error
import urllib.request
from datetime import timedelta
from typing import Any

import pytest
from sublet import Batch, Consumer
from sublet.decisions.session.process_health import ProcessReport, ShardReport
from sublet.errors import SettingsError
from sublet.runtimes.health_server import STALLS_TOLD, serving_health
from sublet.system.threads import ThreadTasks
from sublet.testing.memory import MemoryStream, memory_ports

PATIENCE = 30
STALLED = ShardReport("shardId-7", timedelta(minutes=6), "handle", timedelta(minutes=6, seconds=1.5), 1_000)
SILENT = ShardReport("shardId-8", timedelta(0), None, timedelta(0), 0, "Could not connect", timedelta(minutes=1))
REPORT = ProcessReport(True, False, "it has not scanned the leases yet", 3, (STALLED,), (SILENT,))


@pytest.fixture
def address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def ask(address: str, path: str, method: str = "GET") -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(urllib.request.Request(f"http://{address}{path}", method=method)) as reply:
            return reply.status, json.loads(reply.read() or "null")
    except urllib.error.HTTPError as refused:
        with refused:
            is_ours = refused.headers["Content-Type"] == "application/json"
            return refused.code, json.loads(refused.read() or "null") if is_ours else None


def test_each_page_answers_for_itself_and_both_say_why_and_which_shard_stalls(address: str) -> None:
    said = {
        "live": True,
        "ready": False,
        "because": "it has not scanned the leases yet",
        "shards": 3,
        "stalls": [
            {
                "shard_id": "shardId-7",
                "stands_still_seconds": 360,
                "call": "handle",
                "call_seconds": 361,
                "millis_behind_latest": 1_000,
            }
        ],
        "unread": [{"shard_id": "shardId-8", "unanswered_seconds": 60, "problem": "Could not connect"}],
    }
    with serving_health(address, lambda: REPORT, ThreadTasks()):
        assert ask(address, "/health/live") == (200, said)
        assert ask(address, "/health/ready?verbose") == (503, said)
        assert ask(address, "/health/live", "HEAD") == (200, None)
        assert ask(address, "/health/ready", "HEAD") == (503, None)
        assert ask(address, "/")[0] == 404
        assert ask(address, "/health/live", "POST")[0] == 501
    with pytest.raises(urllib.error.URLError):
        ask(address, "/health/live")


def test_health_answers_over_ipv6_too() -> None:
    """Pods of a cluster may have no other address."""
    if not has_ipv6():
        pytest.skip("no IPv6 here")
    with socket.socket(socket.AF_INET6) as free:
        free.bind(("::1", 0))
        address = f"[::1]:{free.getsockname()[1]}"
    with serving_health(address, lambda: REPORT, ThreadTasks()):
        assert ask(address, "/health/live")[0] == 200


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as free:
            free.bind(("::1", 0))
    except OSError:
        return False
    return True


def test_health_names_a_hundred_of_a_thousand_stalled_shards(address: str) -> None:
    many = REPORT._replace(shards=1_000, stalls=(STALLED,) * 1_000)
    with serving_health(address, lambda: many, ThreadTasks()):
        assert len(ask(address, "/health/live")[1]["stalls"]) == STALLS_TOLD


def test_an_address_that_another_has_is_refused_by_the_settings_name(address: str) -> None:
    with (
        serving_health(address, lambda: REPORT, ThreadTasks()),
        pytest.raises(SettingsError, match="setting health"),
        serving_health(address, lambda: REPORT, ThreadTasks()),
    ):
        pass


@pytest.mark.parametrize("address", ["8080", "127.0.0.1", "127.0.0.1:65536", ":8080", "http://localhost:80"])
def test_health_address_is_refused_without_host_and_port(address: str) -> None:
    with pytest.raises(SettingsError, match="host:port"):
        Consumer("orders-audit", "orders", print, health=address)


def test_a_consumer_is_ready_when_it_has_looked_and_no_longer_when_it_is_to_end(address: str) -> None:
    stream, in_call, goes_on = MemoryStream(1, name="orders"), threading.Event(), threading.Event()
    stream.put("customer-7", b"payload")

    def handle(_: Batch) -> None:
        in_call.set()
        goes_on.wait(PATIENCE)

    consumer = Consumer("orders-audit", "orders", handle, ports=memory_ports(stream), health=address)
    running = threading.Thread(target=consumer.run)
    running.start()
    assert in_call.wait(PATIENCE)
    for path in ("/health/live", "/health/ready"):
        code, said = ask(address, path)
        assert code == 200
        assert (said["shards"], said["stalls"]) == (1, [])
    consumer.stop()
    assert ask(address, "/health/live")[0] == 200
    assert ask(address, "/health/ready")[0] == 503
    goes_on.set()
    running.join(PATIENCE)
    assert not running.is_alive()
