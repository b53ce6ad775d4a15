"""`/metrics` at the health address, and a program's own registry. Without the extra nothing is imported."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace

import prometheus_client
import pytest
from prometheus_client import CollectorRegistry, Counter
from sublet import Consumer, Producer, prometheus
from sublet.runtimes import prometheus_page
from sublet.runtimes.health_server import serving_health
from sublet.runtimes.scraped_metrics import SCRAPED
from sublet.system.threads import ThreadTasks
from sublet.testing.memory import MemoryAccount
from sublet.testing.memory.failure_destination import MemoryDestination

from tests.doubles.pulled import PulledWorld
from tests.unit.runtimes.test_health_server import REPORT, address

__all__ = ["address"]


@pytest.fixture(autouse=True)
def off_again() -> Iterator[None]:
    yield
    SCRAPED.is_on = False


def scrape(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics") as reply:
        assert reply.headers["Content-Type"].startswith("text/plain; version=")
        return str(reply.read().decode())


def test_the_health_address_shows_the_process_and_the_programs_own_metrics(address: str) -> None:
    account = MemoryAccount()
    account.create("shown", 1)
    refused = Counter("shown_refused", "What the shop refused.", registry=prometheus_client.REGISTRY)
    refused.inc()
    try:
        consumer = Consumer("shown-audit", "shown", account=account, health=address)
        consumer.create()
        with consumer:
            with Producer("shown", account=account) as producer:
                producer.put("key", b"record")
            record = consumer.next(expires=20)
            assert record is not None
            record.ack()
            text = scrape(address)
    finally:
        prometheus_client.REGISTRY.unregister(refused)
    assert "shown_refused_total 1.0" in text
    assert 'sublet_worker_leases{application="shown-audit",stream="shown"} 1.0' in text
    assert 'messaging_client_sent_messages_total{stream="shown"} 1.0' in text
    assert 'sublet_shards{application="shown-audit",stream="shown"} 1.0' in text


def test_a_program_has_the_metrics_in_a_registry_of_its_own() -> None:
    account, registry = MemoryAccount(), CollectorRegistry()
    account.create("owned", 1)
    prometheus.register(registry)
    prometheus.register(registry)
    with Producer("owned", account=account) as producer:
        producer.put("key", b"record")
    assert registry.get_sample_value("messaging_client_sent_messages_total", {"stream": "owned"}) == 1


def test_records_that_a_program_sets_aside_are_counted_too() -> None:
    def counted() -> float:
        name = "sublet_records_set_aside_total"
        found = [each.value for each in SCRAPED.samples() if each.instrument.prometheus == name]
        return sum(value for value in found if isinstance(value, float | int))

    prometheus.register(CollectorRegistry())
    world, queue = PulledWorld(), "arn:aws:sqs:eu-west-1:123456789012:failed"
    world.put(["a1"])
    ports = replace(world.ports(), destination=MemoryDestination())
    before = counted()
    with world.consumer(ports, on_failure=queue) as consumer:
        record = consumer.next()
        assert record is not None
        assert record.term("poison")
        assert counted() == before + 1


def test_a_collector_that_raises_is_an_error_without_its_text(address: str) -> None:
    class Broken:
        def describe(self) -> list[object]:
            return []

        def collect(self) -> list[object]:
            raise RuntimeError("a customer's name")

    broken = Broken()
    prometheus_client.REGISTRY.register(broken)  # type: ignore[arg-type]
    try:
        with serving_health(address, lambda: REPORT, ThreadTasks()), pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://{address}/metrics")
    finally:
        prometheus_client.REGISTRY.unregister(broken)  # type: ignore[arg-type]
    with refused.value as reply:
        said = reply.read().decode()
    assert reply.code == 500
    assert "RuntimeError" in said
    assert "customer" not in said


def test_without_the_extra_the_page_says_what_to_install(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus_page, "find_spec", lambda _: None)
    with serving_health(address, lambda: REPORT, ThreadTasks()), pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://{address}/metrics")
    with refused.value as reply:
        assert reply.code == 404
        assert "install sublet with its extra metrics" in reply.read().decode()
    with pytest.raises(ImportError, match="its extra metrics"):
        prometheus.register(CollectorRegistry())


WITHOUT = """
import json, sys
import sublet
from sublet.testing.memory import MemoryAccount
account = MemoryAccount()
account.create("quiet", 1)
with sublet.Producer("quiet", account=account) as producer:
    producer.put("key", b"record")
consumer = sublet.Consumer("quiet-audit", "quiet", account=account)
consumer.create()
with consumer:
    consumer.next(expires=20).ack()
from sublet.runtimes.scraped_metrics import SCRAPED
print(json.dumps([SCRAPED.is_on, len(list(SCRAPED.samples())), "prometheus_client" in sys.modules]))
"""


def test_nothing_is_imported_or_kept_for_a_program_that_does_not_ask() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout.splitlines()[-1]) == [False, 0, False]
