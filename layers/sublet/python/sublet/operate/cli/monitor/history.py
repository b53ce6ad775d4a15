"""`sublet history`: shows who moved a shard's position, from where to where, and when."""

from __future__ import annotations

import json
import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from typing import TYPE_CHECKING

from sublet.command_line.command import Command, explain
from sublet.command_line.settings_options import add_setting, settings_of
from sublet.command_line.terminal_text import printable
from sublet.errors import ControlUnreadable, LeaseTableError, ShardNotFound
from sublet.operate.cli.options.one_stream import add_one_stream, shards_of
from sublet.operate.cli.positions.snapshots import lease_table, snapshot_store, stream_of
from sublet.operate.formatting import time_text
from sublet.operate.rules.shard_history import ShardHistory, shard_history
from sublet.settings import DEFINITIONS, Settings

if TYPE_CHECKING:
    from sublet.decisions.manager.liveness import Sighting
    from sublet.ports import LeaseTable
    from sublet.protocol.control import Pause
    from sublet.protocol.lease import Lease

DESCRIPTION = """\
Show what is known of a shard's past: seeks, undos and skips, with who made them, from where to where, and when;
snapshots; pauses; and what its owners reported in the last minutes (`sublet lag` goes back further). Then it shows what
the row says now, and what only the application's log keeps."""

EXAMPLES = """\
examples:
  sublet history shardId-000000000003 --application orders-audit
  sublet history shardId-000000000003 --application orders-audit --json"""


def add_arguments(parser: ArgumentParser) -> None:
    explain(parser, DESCRIPTION, EXAMPLES)
    parser.add_argument("shard", metavar="SHARD")
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_one_stream(parser)
    add_setting(parser, DEFINITIONS["application"])


def show(options: Namespace) -> int:
    settings = settings_of(options, os.environ, required=("application",))
    table, shard = lease_table(settings.application), options.shard
    if options.one_stream is not None:
        known = stream_of(settings.application)
        (shard,) = shards_of(options.one_stream, [shard], table.scan(), settings.application, known)
    row = lease_of(shard, table, settings.application)
    sighting, pause = _remembered(settings, row)
    found = shard_history(row, snapshot_store(settings).snapshots(), sighting, pause)
    print(json.dumps(as_json(found), indent=2) if options.json else "\n".join(lines_of(found)))
    return 0


def lease_of(shard: str, table: LeaseTable, application: str) -> Lease:
    """Returns the shard's lease. Raises ShardNotFound, also if several streams have a shard of this id, and what
    LeaseTable raises.
    """
    from sublet.decisions.streams.operated_streams import shard_named, streams_of
    from sublet.protocol.lease import Lease, lease_key_of

    row = table.get(lease_key_of(shard))
    if row is None:
        row = table.get(lease_key_of(shard_named(shard, streams_of(table.scan()))))
    if not isinstance(row, Lease):
        why = "no lease" if row is None else f"a row that cannot be read ({row.problem})"
        raise ShardNotFound(f"shard {shard} has {why} in {application}")
    return row


def _remembered(settings: Settings, lease: Lease) -> tuple[Sighting | None, Pause | None]:
    """Returns nothing if the application has no sightings, or they may not be read."""
    from sublet.decisions.session.control import pause_of
    from sublet.operate.aws.ports import CommandPorts

    ports = CommandPorts(settings)
    try:
        sighting = ports.sightings.load().sightings.get(lease.lease_key)
        control = ports.control.control()
    except (LeaseTableError, ControlUnreadable):
        return None, None
    return sighting, pause_of(control, lease.lease_key, ports.clock.now())


def lines_of(found: ShardHistory) -> Iterable[str]:
    if not found.events:
        yield "nothing is known of its past"
    for event in found.events:
        by = f" by {printable(event.by)}" if event.by else ""
        moved = f": {event.before} -> {event.after or 'not kept'}" if event.before and event.after else ""
        rest = moved or (f": {event.before or event.after}" if event.before or event.after else "")
        yield f"{time_text(event.at)}  {printable(event.what)}{by}{rest}"
    yield ""
    yield from (f"today: {printable(line)}" for line in found.today)
    yield from (f"not kept: {line}" for line in found.not_kept)


def as_json(found: ShardHistory) -> dict[str, object]:
    return {
        "lease": found.lease_key,
        "events": [
            {
                "at": event.at.isoformat(),
                "what": event.what,
                "by": event.by or None,
                "before": event.before or None,
                "after": event.after or None,
            }
            for event in found.events
        ],
        "today": list(found.today),
        "not_kept": list(found.not_kept),
    }


COMMAND = Command("history", "show who moved a shard, from where to where, and when", add_arguments, show)
