"""`sublet leases`: shows a line for each lease of the table, and the load of each worker and group."""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterable

from sublet.command_line.command import Command
from sublet.command_line.settings_options import add_setting, settings_of
from sublet.command_line.terminal_text import harmless, printable
from sublet.operate.cli.monitor.workers import distribution_lines
from sublet.operate.cli.options.one_stream import add_one_stream, of_one_stream
from sublet.operate.cli.text.columns import name_width
from sublet.operate.formatting import shortened
from sublet.operate.rules.fleet_json import distribution_json
from sublet.protocol.lease import Lease, LeaseScan
from sublet.settings import DEFINITIONS

DESCRIPTION = """\
Show every lease of an application: its owner, its counter, which a live owner raises, and its checkpoint; and how the
leases and their throughput are spread over workers and groups of workers. Read-only; works with any lease table of KCL
1, 2 or 3. Expired owners are known from <application>-sightings, if a lease manager of sublet writes it."""

EXAMPLES = """\
examples:
  sublet leases --application orders-audit
  sublet leases --application orders-audit --json
  sublet leases --application orders-audit --failover-time 10s --group-separator -"""

KEY_WIDTH = OWNER_WIDTH = 28
BESIDE_OWNERS = 70
"""Characters of a line's other columns, with a checkpoint of 56 digits."""

SETTINGS = ("application", "failover_time", "group_separator", "max_leases_for_worker")


def add_arguments(parser: ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = RawDescriptionHelpFormatter
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_one_stream(parser)
    for name in SETTINGS:
        add_setting(parser, DEFINITIONS[name])


def show_leases(options: Namespace) -> int:
    from sublet.aws import clients
    from sublet.aws.tables.lease_table import DynamoDbLeaseTable
    from sublet.aws.tables.sightings import DynamoDbSightingStore
    from sublet.decisions.status.fleet_status import FleetFindings, fleet_status
    from sublet.errors import LeaseTableError
    from sublet.system.clock import SystemClock

    settings = settings_of(options, os.environ, required=("application",))
    scan = DynamoDbLeaseTable(clients.dynamodb_client(), settings.lease_table, several=None).scan()
    try:
        remembered = DynamoDbSightingStore(clients.dynamodb_client, settings.sightings_table).load()
        sightings, stream = remembered.sightings, remembered.stream
    except LeaseTableError as unknown:
        print(
            f"sublet: expired owners and moved leases are not known: {harmless(str(unknown))}",
            file=sys.stderr,
        )
        sightings, stream = {}, None
    scan = of_one_stream(options.one_stream, scan, settings.application, stream)
    status = fleet_status(scan, SystemClock().now(), settings, FleetFindings(sightings))
    if options.json:
        print(json.dumps({**leases_json(scan), **distribution_json(status.distribution)}, indent=2))
        return 0
    for line in (*lease_lines(scan), "", *distribution_lines(status.distribution, status.at)):
        print(line)
    return 0


def leases_json(scan: LeaseScan) -> dict[str, object]:
    """Shows rows as they are; `sublet status --json` says what they mean."""
    return {
        "leases": [
            {
                "lease": lease.lease_key,
                "owner": lease.lease_owner,
                "counter": lease.lease_counter,
                "checkpoint": str(lease.checkpoint),
                "start_at": None if lease.position.start_at is None else lease.position.start_at.isoformat(),
            }
            for lease in sorted(scan.leases, key=lambda lease: lease.lease_key)
        ],
        "malformed": [{"row": row.lease_key, "problem": row.problem} for row in scan.malformed],
    }


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
