"""`sublet workers`: shows the load of each worker and group of workers, beside an even share."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from datetime import datetime

from sublet.command_line.command import Command, explain
from sublet.command_line.settings_options import add_setting
from sublet.command_line.terminal_text import printable
from sublet.decisions.plurals import counted
from sublet.decisions.status.work_distribution import GroupLoad, WorkDistribution, WorkerLoad
from sublet.operate.cli.options.looking import look_once
from sublet.operate.cli.options.one_stream import add_one_stream
from sublet.operate.cli.text.columns import name_width
from sublet.operate.formatting import age_text, shortened
from sublet.operate.rules.fleet_json import distribution_json
from sublet.settings import DEFINITIONS

DESCRIPTION = """\
Show how an application's leases and their throughput are spread over its live workers and groups of workers, beside an
even share; and for each worker, how long ago it last wrote, and when it last took a lease from another. Read-only;
works with any lease table of KCL 1, 2 or 3. sublet's own workers note in the lease table when they wrote. Other
workers' writes, and moved leases, are known from <application>-sightings, if a lease manager of sublet writes it. "-"
means not known.

The exit code is 0, or 2 for an error."""

EXAMPLES = """\
examples:
  sublet workers --application orders-audit
  sublet workers --application orders-audit --group-separator - --json"""

GROUP_WIDTH, WORKER_WIDTH = 28, 46
BESIDE_GROUPS, BESIDE_WORKERS = 50, 39
"""The width of a line's other columns."""

SETTINGS = ("application", "failover_time", "group_separator", "max_leases_for_worker")


def add_arguments(parser: ArgumentParser) -> None:
    explain(parser, DESCRIPTION, EXAMPLES)
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_one_stream(parser)
    for name in SETTINGS:
        add_setting(parser, DEFINITIONS[name])


def show_workers(options: Namespace) -> int:
    found = look_once(options)
    if options.json:
        print(json.dumps(distribution_json(found.distribution), indent=2))
    else:
        print("\n".join(distribution_lines(found.distribution, found.at)))
    return 0


def distribution_lines(of: WorkDistribution, at: datetime) -> Iterable[str]:
    """Yields a line for each group of workers, one for each worker, and one for all."""
    if of.workers:
        width = name_width((printable(group.group) for group in of.groups), GROUP_WIDTH, BESIDE_GROUPS)
        yield f"{'group':<{width}} {'workers':>8} {'leases':>8} {'share':>8} {'KB/s':>10} {'share':>10}"
        yield from (_group_line(group, width) for group in of.groups)
        yield ""
        width = name_width((printable(worker.worker_id) for worker in of.workers), WORKER_WIDTH, BESIDE_WORKERS)
        yield f"{'worker':<{width}} {'leases':>8} {'KB/s':>10} {'wrote':>8} {'took':>8}"
        yield from (_worker_line(worker, at, width) for worker in of.workers)
        yield ""
    even = "" if of.target_kbps is None else f" and {of.target_kbps:,.1f} KB/s"
    expired = "-" if of.expired is None else of.expired
    yield (
        f"target: {counted(of.target, 'lease')}{even} a worker; {of.unowned} unowned, {expired} expired, "
        f"{of.moved} moved in the last hour"
    )


def _group_line(group: GroupLoad, width: int) -> str:
    return (
        f"{shortened(printable(group.group), width):<{width}} {group.workers:>8} {group.leases:>8} {group.share:>8.1f} "
        f"{_kbps(group.kbps):>10} {_kbps(group.kbps_share):>10}"
    )


def _worker_line(worker: WorkerLoad, at: datetime, width: int) -> str:
    wrote = "-" if worker.idle is None else f"{age_text(worker.idle)} ago"
    took = "-" if worker.took_at is None else f"{age_text(at - worker.took_at)} ago"
    name = shortened(printable(worker.worker_id), width)
    return f"{name:<{width}} {worker.leases:>8} {_kbps(worker.kbps):>10} {wrote:>8} {took:>8}"


def _kbps(kbps: float | None) -> str:
    return "-" if kbps is None else f"{kbps:,.1f}"


COMMAND = Command("workers", "show the load of each worker and group of workers", add_arguments, show_workers)
