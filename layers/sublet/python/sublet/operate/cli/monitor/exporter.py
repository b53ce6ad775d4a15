"""`sublet exporter`: shows Prometheus how applications of the account stand, a Java KCL's too."""

from __future__ import annotations

import json
import re
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from sublet.command_line.command import Command, explain
from sublet.command_line.terminal_text import harmless
from sublet.errors import SettingsError, SubletError
from sublet.settings.text import parse_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sublet.operate.exporter.applications import Calls, Looked

DESCRIPTION = """\
Show Prometheus how applications stand: /metrics with the lag, status, attempts and owner's rates of each shard, read
from the lease table and, where a row does not say its lag, as a Java KCL's does not, from the stream. It works with any
lease table of KCL 1, 2 or 3, writes nothing, and joins no application.

It looks every --every, and a scrape makes no call. A look costs a Scan of the two tables, and a read of each shard
whose row has no recent lag. Such a read shares the shard's five a second with its consumers. The counter
sublet_exporter_calls_total shows them.

--rules prints alert rules for Prometheus, and --dashboard a dashboard for Grafana. Both know the metrics of this
command and those that `sublet run` shows at its own /metrics.

It needs the extra metrics. The address is on loopback unless --address says otherwise: anyone who can reach it sees the
names of applications, streams and shards, but no record."""

EXAMPLES = """\
examples:
  sublet exporter --application orders-audit=orders
  sublet exporter --application orders-audit=orders --application billing=orders --every 2m
  sublet exporter --application orders-audit=orders --address 0.0.0.0:9464
  sublet exporter --rules
  sublet exporter --dashboard"""

ADDRESS = "127.0.0.1:9464"
"""9464 is the port that OpenTelemetry's exporter for Prometheus has."""

SHORTEST = timedelta(seconds=10)

FIRST_LOOKS_MAX = timedelta(seconds=30)
"""How long the address waits for the first looks, so that the first scrape is complete; Kubernetes waits too."""

PROBES_AT_ONCE = 16
"""Of an application, whose thousands of shards are to be asked within half the time between two looks."""


class Named(NamedTuple):
    application: str
    stream: str | None


def add_arguments(parser: ArgumentParser) -> None:
    explain(parser, DESCRIPTION, EXAMPLES)
    parser.add_argument(
        "--application",
        metavar="APPLICATION=STREAM",
        type=named,
        action="append",
        default=[],
        help="an application and its stream; without =STREAM for one that reads several. May be repeated",
    )
    parser.add_argument("--stream", metavar="NAME", help="the stream of the one application named without =STREAM")
    parser.add_argument("--every", metavar="DURATION", type=duration, default="1m", help="how often to look [1m]")
    parser.add_argument(
        "--address", metavar="HOST:PORT", type=address, default=ADDRESS, help=f"where /metrics is [{ADDRESS}]"
    )
    parser.add_argument("--rules", action="store_true", help="print alert rules, and end")
    parser.add_argument("--dashboard", action="store_true", help="print a Grafana dashboard, and end")


def named(text: str) -> Named:
    application, equals, stream = text.partition("=")
    if not application or (equals and not stream):
        raise ArgumentTypeError(f"{text!r} is not APPLICATION=STREAM, such as orders-audit=orders")
    return Named(application, stream or None)


def with_stream(applications: list[Named], stream: str | None) -> list[Named]:
    """As other commands take it: `--application audit --stream orders` is `--application audit=orders`."""
    if not applications:
        raise SubletError("name an application: --application orders-audit=orders")
    for name, times in Counter(each.application for each in applications).items():
        if times > 1:
            raise SubletError(f"--application {name} is named {times} times: Prometheus takes each series once")
    if stream is None:
        return applications
    if len(applications) > 1 or applications[0].stream:
        raise SubletError("--stream belongs to one --application without =STREAM; write each as APPLICATION=STREAM")
    return [Named(applications[0].application, stream)]


def duration(text: str) -> timedelta:
    try:
        found = parse_duration("every", text)
    except SettingsError as refused:
        raise ArgumentTypeError(f"{text!r} is not {refused.allowed}") from None
    if found < SHORTEST:
        raise ArgumentTypeError(f"{text!r} is shorter than 10s, and each look reads tables and shards")
    return found


def address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not re.fullmatch(r"\d{1,5}", port) or int(port) > 65_535:
        raise ArgumentTypeError(f"{text!r} is not HOST:PORT, such as {ADDRESS}")
    return host.strip("[]"), int(port)


def run_exporter(options: Namespace) -> int:
    if options.rules:
        from sublet.operate.rules.alert_rules import rules_text

        print(rules_text(), end="")
        return 0
    if options.dashboard:
        from sublet.operate.rules.grafana_dashboard import dashboard

        print(json.dumps(dashboard(), indent=2))
        return 0
    return serve(options)


def serve(options: Namespace) -> int:
    """Until Ctrl-C or SIGTERM. The first look is over before the address answers."""
    from sublet.runtimes.prometheus_page import MISSING, has_library

    chosen = with_stream(options.application, options.stream)
    if not has_library():
        raise SubletError(MISSING)
    import prometheus_client

    from sublet.operate.exporter.applications import STALE_AFTER, ExportedApplication, look_forever
    from sublet.runtimes.ending import stop_at_signals, stops
    from sublet.runtimes.prometheus_page import SampleCollector
    from sublet.system.clock import SystemClock
    from sublet.system.threads import ThreadTasks

    every: timedelta = options.every
    clock, tasks = SystemClock(), ThreadTasks()
    told = stops(tasks)
    stop_at_signals(told, timedelta(seconds=5), tasks, list)
    told.leaving.on_set(told.stop.set)
    applications = [
        ExportedApplication(
            each.application, each.stream, Opening(each, every), clock, _say, max(STALE_AFTER, 3 * every)
        )
        for each in chosen
    ]
    registry = prometheus_client.CollectorRegistry()
    registry.register(SampleCollector(lambda: [sample for each in applications for sample in each.samples()]))
    host, port = options.address
    first = [tasks.signal() for _ in applications]
    for each, looked in zip(applications, first, strict=True):  # one that hangs holds up no other
        tasks.spawn(partial(look_forever, each, every, clock, told.stop.wait, looked.set))
    until = clock.steady() + FIRST_LOOKS_MAX
    for looked in first:
        looked.wait(max(until - clock.steady(), timedelta(0)))
    try:
        server, _ = prometheus_client.start_http_server(port, host, registry)
    except OSError as taken:
        raise SubletError(f"--address {host}:{port} cannot be used: {taken}") from taken
    _say(f"http://{host}:{server.server_port}/metrics")
    while not told.stop.wait(every):
        pass
    told.is_over.set()
    return 0


class Opening:
    """Finds an application, as `sublet status --probe` does."""

    def __init__(self, named: Named, every: timedelta) -> None:
        self._named, self._every = named, every

    def __call__(self, calls: Calls) -> Looked:
        from sublet.operate.cli.options.looking import retention_of, watch_of
        from sublet.operate.exporter.applications import Looked
        from sublet.operate.status_watch import BOUNDS, Watch

        given: Mapping[str, object] = {
            "application": self._named.application,
            "stream": self._named.stream,
            "failover_time": None,
        }
        watch, _ = watch_of(Namespace(**given), probes=True, seen_by=calls.of)
        ports = watch.ports
        bounds = replace(BOUNDS, at_once=PROBES_AT_ONCE, lasts=max(BOUNDS.lasts, self._every / 2))
        return Looked(Watch(ports, watch.settings, True, bounds), lambda: retention_of(ports))


def _say(line: str) -> None:
    print(f"sublet: {harmless(line)}", file=sys.stderr, flush=True)


COMMAND = Command("exporter", "show Prometheus how applications stand, a Java KCL's too", add_arguments, run_exporter)
