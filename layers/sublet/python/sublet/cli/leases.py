"""`sublet leases`: the lease table, a line for each lease."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter

from sublet.cli.command import Command
from sublet.cli.settings_options import add_setting, one_setting
from sublet.protocol.lease import LeaseScan
from sublet.settings import DEFINITIONS

DESCRIPTION = """\
Show every lease of an application: who owns it, its counter, which a living owner raises, and its checkpoint. Only reads;
any lease table of KCL 1, 2 or 3 will do."""

EXAMPLES = """\
example:
  sublet leases --application orders-audit"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = RawDescriptionHelpFormatter
    add_setting(parser, DEFINITIONS["application"])


def show_leases(options: Namespace) -> int:
    from sublet.aws import clients
    from sublet.aws.dynamodb import DynamoDbLeaseTable

    application = one_setting("application", options, os.environ)
    print(lease_lines(DynamoDbLeaseTable(clients.dynamodb_client(), application).scan()))
    return 0


def lease_lines(scan: LeaseScan) -> str:
    """A line for each lease, by lease key; malformed rows last, with their problem."""
    lines = [f"{'lease':<28} {'owner':<28} {'counter':>10}  checkpoint"]
    lines += [
        f"{lease.lease_key:<28} {lease.lease_owner or '-':<28} {lease.lease_counter:>10}  {lease.checkpoint}"
        for lease in sorted(scan.leases, key=lambda lease: lease.lease_key)
    ]
    lines += [f"{row.lease_key:<28} MALFORMED: {row.problem}" for row in scan.malformed]
    return "\n".join(lines)


COMMAND = Command("leases", "show every lease: owner, counter, checkpoint", add_arguments, show_leases)
