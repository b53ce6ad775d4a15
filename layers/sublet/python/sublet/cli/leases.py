"""`sublet leases`: shows a line for each lease of the table, and the load of each worker and group."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterable

from sublet.cli.columns import name_width
from sublet.cli.command import Command
from sublet.cli.settings_options import add_setting, settings_of
from sublet.cli.shown import printable, shortened
from sublet.cli.workers import distribution_lines
from sublet.protocol.lease import Lease, LeaseScan
from sublet.settings import DEFINITIONS

DESCRIPTION = """\
Show every lease of an application: its owner, its counter, which a live owner raises, and its checkpoint; and how the leases
and their throughput are spread over workers and groups of workers. Read-only; works with any lease table of KCL 1, 2 or 3.
Expired owners are known from <application>-sightings, if a lease manager of sublet writes it."""

EXAMPLES = """\
examples:
  sublet leases --application orders-audit
  sublet leases --application orders-audit --failover-time 10s --group-separator -"""

KEY_WIDTH = OWNER_WIDTH = 28
BESIDE_OWNERS = 70
"""Characters of a line's other columns, with a checkpoint of 56 digits."""

SETTINGS = ("application", "failover_time", "group_separator", "max_leases_for_worker")


def add_arguments(parser: ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = RawDescriptionHelpFormatter
    for name in SETTINGS:
        add_setting(parser, DEFINITIONS[name])


def show_leases(options: Namespace) -> int:
    from sublet.aws import clients
    from sublet.aws.dynamodb import DynamoDbLeaseTable
    from sublet.aws.sightings import DynamoDbSightingStore
    from sublet.decisions.fleet_status import Findings, fleet_status
    from sublet.errors import LeaseTableError
    from sublet.system.clock import SystemClock

    settings = settings_of(options, os.environ, required=("application",))
    scan = DynamoDbLeaseTable(clients.dynamodb_client(), settings.lease_table, several=None).scan()
    try:
        sightings = DynamoDbSightingStore(clients.dynamodb_client, settings.sightings_table).load().sightings
    except LeaseTableError as unknown:
        print(f"sublet: expired owners and moved leases are not known: {unknown}", file=sys.stderr)
        sightings = {}
    status = fleet_status(scan, SystemClock().now(), settings, Findings(sightings))
    for line in (*lease_lines(scan), "", *distribution_lines(status.distribution, status.at)):
        print(line)
    return 0


def lease_lines(scan: LeaseScan) -> Iterable[str]:
    """Yields a line for each lease, by lease key. Malformed rows come last, with their problem."""
    leases = sorted(scan.leases, key=lambda lease: lease.lease_key)
    keys = max((len(printable(lease.lease_key)) for lease in leases), default=0)
    keys = max(keys, KEY_WIDTH)
    owners = name_width(map(_owner, leases), OWNER_WIDTH, keys + BESIDE_OWNERS)
    yield f"{'lease':<{keys}} {'owner':<{owners}} {'counter':>10}  checkpoint"
    for lease in leases:
        owner = shortened(_owner(lease), owners)
        yield f"{printable(lease.lease_key):<{keys}} {owner:<{owners}} {lease.lease_counter:>10}  {lease.checkpoint}"
    for row in scan.malformed:
        yield f"{printable(row.lease_key):<28} MALFORMED: {printable(row.problem)}"


def _owner(lease: Lease) -> str:
    return printable(lease.lease_owner or "-")


COMMAND = Command("leases", "show every lease, and the load of each worker", add_arguments, show_leases)
