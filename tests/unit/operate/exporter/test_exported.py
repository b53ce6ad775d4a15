"""`sublet exporter`: what it shows of an application that it does not run, what it costs, and what a failure shows."""

from __future__ import annotations

from argparse import ArgumentTypeError
from dataclasses import replace
from datetime import timedelta

import pytest
from sublet.decisions.status.shard_status import ShardState
from sublet.decisions.status.status_rules import Status, StatusReason
from sublet.errors import LeaseTableUnavailable
from sublet.operate.cli.main import main
from sublet.operate.cli.monitor.exporter import Named, address, duration, named
from sublet.operate.exporter.applications import Calls, ExportedApplication, Looked, look_forever
from sublet.operate.exporter.samples import application_samples
from sublet.operate.status_watch import Watch
from sublet.runtimes.prometheus_page import SampleCollector, page
from sublet.runtimes.scraped_metrics import Sample

from tests.doubles.engine_world import NO_WAITING, SHARD, EngineWorld
from tests.doubles.fleet import NOW, fleet_of, shard_status
from tests.promtool import promtool

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
STALLED = shard_status(
    0, Status.STALLED, StatusReason.POSITION_STANDS, since=NOW - 9 * MINUTE, lag=41 * MINUTE, attempts=3, crashes=4
)
QUIET = shard_status(1, Status.OK, StatusReason.NOTHING_WAITS, lag=timedelta(0), kbps=12.5, records_per_second=80.0)
UNKNOWN = shard_status(2, Status.UNKNOWN, StatusReason.LAG_UNKNOWN, lag=None, owner=None)
ENDED = shard_status(3, Status.ENDED, StatusReason.READ_TO_ITS_END, state=ShardState.ENDED)


def values(samples: list[Sample]) -> dict[tuple[str, str], float]:
    """By name, and by shard or, of the whole application, an empty text."""
    numbers = [(each, each.value) for each in samples if isinstance(each.value, int | float)]
    return {(each.instrument.prometheus, each.labels.get("shard_id", "")[-1:]): value for each, value in numbers}


def test_a_fleet_has_the_names_that_a_process_shows_of_itself() -> None:
    shown = values(
        list(application_samples(fleet_of(STALLED, QUIET, UNKNOWN, ENDED, retention=DAY), "audit", "orders"))
    )
    assert shown["sublet_lag_seconds", "0"] == 41 * 60
    assert shown["sublet_checkpoint_age_seconds", "0"] == 9 * 60
    assert shown["sublet_handler_attempts", "0"] == 3
    assert (shown["sublet_lag_seconds", "1"], shown["sublet_checkpoint_age_seconds", "1"]) == (0, 0)
    assert shown["sublet_read_bytes_per_second", "1"] == 12_500
    assert shown["sublet_leases", ""] == 3, "ended shards need nobody"
    assert shown["sublet_crashing_leases", ""] == 1
    assert shown["sublet_application_lag_seconds", ""] == 41 * 60
    assert shown["sublet_retention_left_seconds", ""] == 24 * 3600 - 41 * 60


def test_an_unknown_lag_has_no_value() -> None:
    shown = values(list(application_samples(fleet_of(UNKNOWN), "audit", "orders")))
    assert ("sublet_lag_seconds", "2") not in shown
    assert ("sublet_application_lag_seconds", "") not in shown
    assert shown["sublet_shard_status", "2"] == 1
    assert shown["sublet_lag_unknown_shards", ""] == 1


def test_no_application_is_said_to_have_no_lag_while_that_of_a_shard_is_not_known() -> None:
    """What scales by it would take the last pod away."""
    shown = values(list(application_samples(fleet_of(QUIET, UNKNOWN), "audit", "orders")))
    assert ("sublet_application_lag_seconds", "") not in shown
    assert shown["sublet_lag_unknown_shards", ""] == 1
    shown = values(list(application_samples(fleet_of(STALLED, UNKNOWN), "audit", "orders")))
    assert shown["sublet_application_lag_seconds", ""] == 41 * 60, "at least"


def exported(world: EngineWorld, said: list[str]) -> ExportedApplication:
    def opens(calls: Calls) -> Looked:
        return Looked(Watch(calls.of(world.ports), world.settings, probes=True), lambda: DAY)

    return ExportedApplication("audit", "orders", opens, world.clock, said.append)


def test_a_row_that_does_not_say_its_lag_is_asked_of_the_shard_and_the_calls_are_counted() -> None:
    """As a Java KCL's rows do not."""
    world, said = EngineWorld(NO_WAITING), list[str]()
    world.shards.put("key", b"data")
    world.steal()
    world.clock.advance(7 * MINUTE)
    application = exported(world, said)
    application.look()
    samples = list(application.samples())
    shown = values(samples)
    assert shown["sublet_lag_seconds", SHARD[-1]] == pytest.approx(7 * 60, abs=3)
    calls = {each.labels["operation"]: each.value for each in samples if "operation" in each.labels}
    assert calls == {"Scan": 2, "GetShardIterator": 1, "GetRecords": 1}
    assert said == []


def test_a_scrape_makes_no_call() -> None:
    world = EngineWorld(NO_WAITING)
    application = exported(world, [])
    application.look()
    before = [each for each in application.samples() if "operation" in each.labels]
    for _ in range(10):
        list(application.samples())
    assert [each for each in application.samples() if "operation" in each.labels] == before


def test_an_application_that_cannot_be_looked_at_is_not_up_and_shows_no_old_lag() -> None:
    world, said = EngineWorld(NO_WAITING), list[str]()
    world.shards.put("key", b"data")
    application = exported(world, said)
    application.look()
    assert values(list(application.samples()))["sublet_exporter_up", ""] == 1
    ports = world.ports
    down = LeaseTableUnavailable("no answer")

    class Down:
        def scan(self) -> None:
            raise down

    assert application._looked is not None
    application._looked.watch.ports = replace(ports, table=Down())  # type: ignore[arg-type]
    for _ in range(3):
        application.look()
    shown = values(list(application.samples()))
    assert shown["sublet_exporter_up", ""] == 0
    assert ("sublet_lag_seconds", "0") not in shown
    application._looked.watch.ports = ports
    application.look()
    assert said == ["audit: LeaseTableUnavailable: no answer", "audit: can be looked at again"], "each once"


def test_an_unexpected_fault_is_said_and_ends_no_looks() -> None:
    world, said = EngineWorld(NO_WAITING), list[str]()
    application = exported(world, said)
    application.look()

    class Odd:
        def scan(self) -> None:
            raise KeyError("leaseKey")

    assert application._looked is not None
    application._looked.watch.ports = replace(world.ports, table=Odd())  # type: ignore[arg-type]
    application.look()
    assert values(list(application.samples()))["sublet_exporter_up", ""] == 0
    assert said == ["audit: an error of sublet: KeyError: 'leaseKey'"]


def test_values_of_a_look_long_ago_are_not_shown() -> None:
    world = EngineWorld(NO_WAITING)
    application = exported(world, [])
    assert values(list(application.samples()))["sublet_exporter_up", ""] == 0, "before the first look"
    application.look()
    assert values(list(application.samples()))["sublet_leases", ""] == 1
    world.clock.advance(6 * MINUTE)
    shown = values(list(application.samples()))
    assert shown["sublet_exporter_up", ""] == 0
    assert ("sublet_leases", "") not in shown


def test_a_raised_retention_is_seen_without_a_restart() -> None:
    world, retentions = EngineWorld(NO_WAITING), [DAY, 7 * DAY]
    world.shards.put("key", b"data")

    def opens(calls: Calls) -> Looked:
        return Looked(Watch(calls.of(world.ports), world.settings, probes=True), lambda: retentions.pop(0))

    application = ExportedApplication("audit", "orders", opens, world.clock, print)
    left = []
    for _ in range(3):
        application.look()
        left.append(values(list(application.samples()))["sublet_retention_left_seconds", ""])
        world.clock.advance(5 * MINUTE)
    assert left == pytest.approx([24 * 3600, 24 * 3600 - 300, 7 * 24 * 3600 - 600], abs=9)


def test_looks_keep_their_pace_however_long_they_take() -> None:
    world, waits = EngineWorld(NO_WAITING), list[timedelta]()

    class Slow:
        def look(self) -> None:
            world.clock.advance(timedelta(seconds=20))

    def wait(pause: timedelta) -> bool:
        waits.append(pause)
        world.clock.advance(pause)
        return len(waits) == 3

    look_forever(Slow(), MINUTE, world.clock, wait)  # type: ignore[arg-type]
    assert waits == [timedelta(seconds=40)] * 3


def test_its_page_passes_prometheus_own_lint() -> None:
    from prometheus_client import CollectorRegistry

    registry = CollectorRegistry()
    found = fleet_of(STALLED, QUIET, UNKNOWN, ENDED, retention=DAY)
    registry.register(SampleCollector(lambda: application_samples(found, "audit", "orders")))
    code, said = promtool("check", "metrics", given=page("text/plain", registry)[0].decode())
    assert (code, said) == (0, "")


@pytest.mark.parametrize("text", ["", "=orders", "audit="])
def test_an_application_without_a_name_or_a_stream_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="APPLICATION=STREAM"):
        named(text)


def test_options_are_read() -> None:
    assert named("audit=orders") == Named("audit", "orders")
    assert named("audit") == Named("audit", None), "one that reads several streams"
    assert address("[::1]:9464") == ("::1", 9464)
    assert duration("2m") == 2 * MINUTE
    with pytest.raises(ArgumentTypeError, match="shorter than 10s"):
        duration("1s")
    with pytest.raises(ArgumentTypeError, match="HOST:PORT"):
        address("9464")


def test_the_exporter_refuses_an_application_that_is_named_twice(capsys: pytest.CaptureFixture[str]) -> None:
    """Prometheus refuses a page that has a series twice."""
    assert main(["exporter", "--application", "audit=orders", "--application", "audit=billing"]) == 2
    assert "audit is named 2 times" in capsys.readouterr().err


def test_the_exporter_without_an_application_says_what_to_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["exporter"]) == 2
    assert "--application orders-audit=orders" in capsys.readouterr().err
