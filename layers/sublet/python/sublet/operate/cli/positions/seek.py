"""`sublet seek`, `restore` and `undo`: move an application's positions, and undo that."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from sublet.command_line.command import Command, explain
from sublet.command_line.settings_options import add_setting
from sublet.decisions.plurals import counted
from sublet.errors import SeekRefused, SettingsError, SnapshotUnreadable
from sublet.operate.cli.options.arguments import add_shards, place
from sublet.operate.cli.options.operated import operated, operator
from sublet.operate.cli.positions.snapshots import lease_table, snapshot_store, stream_of
from sublet.operate.formatting import time_text
from sublet.settings import DEFINITIONS, Settings
from sublet.settings.text import parse_duration

if TYPE_CHECKING:
    from sublet.operate.positions.planned_seek import PlannedSeek
    from sublet.operate.positions.seek_target import SeekTarget
    from sublet.ports import Ports, SnapshotStore
    from sublet.protocol.lease import LeaseScan
    from sublet.protocol.shard import Shard
    from sublet.protocol.snapshot import Snapshot

SEEK_DESCRIPTION = """\
Move an application's positions: to the beginning of the stream (`earliest`), to its end (`latest`), to a time (ISO 8601
with a time zone), to how long ago (`90m`, `2h`, `1d`), by a span (--back, --forward), on after a record, or to a
snapshot, a file or another application's positions. The fleet may keep running, Java's KCL too: the write that moves a
lease also takes it from its owner, and the next owner begins at the new position.

Without --execute it only prints the plan: where each shard is now and where it would be, what that repeats or skips in
time and in records, and how long the fleet then needs to catch up. These are estimates from CloudWatch's
IncomingRecords or a page at each end; `?` means not known. A shard that a reshard has ended opens again, and its
children wait for it. Before it moves anything it takes a snapshot, to which `sublet undo` returns. The handler must
expect records that it has handled before.

If the application reads several streams, all of them move, or only that of --stream. --shard then takes a shard's full
name, as `sublet status` shows it, or its own id with --stream."""

SEEK_EXAMPLES = """\
examples:
  sublet seek 1h --application orders-audit --stream orders
  sublet seek 2026-11-22T08:00:00Z --application orders-audit --stream orders --execute
  sublet seek earliest --application orders-audit --stream orders --shard shardId-000000000003 --execute
  sublet seek --after 49671359605419430805 --shard shardId-000000000003 --application orders-audit --stream orders
  sublet seek --to-snapshot before-release --application orders-audit --stream orders --execute
  sublet seek --like orders-billing --application orders-audit --stream orders"""

RESTORE_DESCRIPTION = """\
Move the positions back to a snapshot. This is `sublet seek --to-snapshot` under a shorter name. Without --execute it
only prints the plan."""

RESTORE_EXAMPLES = """\
examples:
  sublet restore before-release --application orders-audit --stream orders
  sublet restore before-release --application orders-audit --stream orders --shard shardId-000000000003 --execute"""

UNDO_DESCRIPTION = """\
Undo the last seek: every lease that it moved returns to where it was. If the seek went forward, the records that the
fleet has handled since come again; if it went back, the records that the fleet has not repeated yet are skipped. An
undo takes a snapshot too, so that a second undo reverses the first. Without --execute it only prints the plan. If the
application reads several streams, --stream limits the undo to one."""

UNDO_EXAMPLES = """\
examples:
  sublet undo --application orders-audit --stream orders
  sublet undo --application orders-audit --stream orders --execute"""


def add_seek_arguments(parser: ArgumentParser) -> None:
    explain(parser, SEEK_DESCRIPTION, SEEK_EXAMPLES)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "place", nargs="?", type=place, metavar="POSITION", help="earliest, latest, a time, or how long ago"
    )
    where.add_argument(
        "--after", metavar="SEQUENCE[:SUB]", help="on after this record of the one shard that --shard names"
    )
    for option, way in (("--back", "back"), ("--forward", "on")):
        where.add_argument(
            option, metavar="DURATION", type=span, help=f"{way} by this much, each shard from where it is now"
        )
    where.add_argument("--to-snapshot", metavar="NAME", help="return to a snapshot")
    where.add_argument(
        "--from-file",
        metavar="FILE",
        type=Path,
        help="to the positions in a file that `sublet snapshot` wrote",
    )
    where.add_argument("--like", metavar="APPLICATION", help="to the positions that another application has now")
    add_shards(parser)
    _add_seeking(parser)


def span(text: str) -> timedelta:
    try:
        return parse_duration("span", text)
    except SettingsError as refused:
        raise ArgumentTypeError(f"{text!r} is not {refused.allowed}") from None


def add_restore_arguments(parser: ArgumentParser) -> None:
    explain(parser, RESTORE_DESCRIPTION, RESTORE_EXAMPLES)
    parser.add_argument("to_snapshot", metavar="NAME", help="the snapshot's name; `sublet snapshots` lists them")
    parser.set_defaults(place=None, after=None, back=None, forward=None, from_file=None, like=None)
    add_shards(parser)
    _add_seeking(parser)


def add_undo_arguments(parser: ArgumentParser) -> None:
    explain(parser, UNDO_DESCRIPTION, UNDO_EXAMPLES)
    _add_seeking(parser)


def _add_seeking(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--execute",
        action="store_true",
        help="move the positions; without this option only the plan is printed",
    )
    parser.add_argument(
        "--confirm",
        metavar="APPLICATION",
        help="the application's name once more; required if records of several shards are skipped for ever",
    )
    parser.add_argument("--json", action="store_true", help="the plan as JSON")
    for name in ("application", "stream"):
        add_setting(parser, DEFINITIONS[name])


def seek(options: Namespace) -> int:
    from sublet.operate.positions.snapshots import seeks_made

    settings, ports = operated(options, required=("application", "stream"))
    snapshots = snapshot_store(settings)
    seeks = seeks_made(snapshots)
    scan, shards = ports.table.scan(), ports.stream.list_shards()
    wanted = _wanted(options, settings, ports, snapshots, scan, shards)
    return _carry_out(options, settings, ports, snapshots, scan, shards, wanted, seeks)


def undo(options: Namespace) -> int:
    from sublet.operate.positions.seek_target import before_the_last
    from sublet.operate.positions.snapshots import seeks_made

    settings, ports = operated(options, required=("application", "stream"))
    snapshots = snapshot_store(settings)
    seeks = seeks_made(snapshots)
    scan, shards = ports.table.scan(), ports.stream.list_shards()
    wanted = before_the_last(settings.application, snapshots, shards, ports)
    return _carry_out(options, settings, ports, snapshots, scan, shards, wanted, seeks)


def _wanted(
    options: Namespace,
    settings: Settings,
    ports: Ports,
    snapshots: SnapshotStore,
    scan: LeaseScan,
    shards: Sequence[Shard],
) -> SeekTarget:
    from sublet.operate.positions.seek_target import (
        after_record,
        at_application,
        at_place,
        at_positions,
        at_snapshot,
        shards_asked,
        shifted,
    )
    from sublet.reading.several_streams import named_shards

    if options.after is not None:
        return after_record(options.after, shards, options.shards, ports)
    if options.forward is not None or options.back is not None:
        by = -options.back if options.forward is None else options.forward
        return shifted(by, scan.leases, shards, options.shards, ports)
    if options.to_snapshot is not None:
        return at_snapshot(options.to_snapshot, settings.application, snapshots, shards, options.shards, ports)
    if options.from_file is not None:
        return at_positions(
            _snapshot_of(options.from_file), f"seek to {options.from_file}", shards, options.shards, ports
        )
    if options.like is not None:
        theirs, known = lease_table(options.like).scan(), stream_of(options.like)
        return at_application(options.like, theirs, known, shards, options.shards, ports)
    moment = options.place.moment(ports.stream.service_time())
    if moment is not None:
        asked = counted(len(shards_asked(shards, named_shards(options.shards, ports))), "shard")
        print(f"sublet: looking for {time_text(moment)} in {asked}", file=sys.stderr, flush=True)
    return at_place(options.place, shards, options.shards, ports)


def _snapshot_of(file: Path) -> Snapshot:
    from sublet.protocol.snapshot import read_snapshot

    try:
        return read_snapshot(file.read_text())
    except OSError as problem:
        raise SeekRefused(f"{file} cannot be read: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise SeekRefused(f"{file} is not a snapshot: it is not text") from None
    except SnapshotUnreadable as problem:
        raise SeekRefused(f"{file}: {problem}") from None


def _carry_out(
    options: Namespace,
    settings: Settings,
    ports: Ports,
    snapshots: SnapshotStore,
    scan: LeaseScan,
    shards: Sequence[Shard],
    wanted: SeekTarget,
    seeks: frozenset[str],
) -> int:
    from sublet.operate.aws.inspection import AwsInspection
    from sublet.operate.positions.planned_seek import carry_out, planned, seek_of
    from sublet.operate.positions.seek_text import plan_json, plan_lines

    known = stream_of(settings.application)
    inspection = AwsInspection(settings, None if known is None else known.arn)
    found = planned(settings.application, known, scan, shards, wanted, ports, inspection, seeks)
    if options.json:
        print(json.dumps(plan_json(found), indent=2))
    else:
        for line in plan_lines(found, ports.clock.now()):
            print(line)
    if not found.plan.moves:
        return 0
    if not options.execute:
        print("\nNothing has been moved. To carry out this plan, add --execute.", file=sys.stderr)
        return 0
    _confirm(found, options.confirm)
    seek = seek_of(found, ports)
    try:
        carry_out(found, seek, snapshots, operator())
    except KeyboardInterrupt:
        moved = f"{len(seek.before):,} of {counted(len(found.plan.moves), 'lease')}"
        print(f"\n{moved} moved. `sublet undo` moves them back.", file=sys.stderr)
        raise
    print(f"\n{counted(len(seek.before), 'lease')} moved. `sublet undo` undoes it.", file=sys.stderr)
    return 0


def _confirm(found: PlannedSeek, confirmed: str | None) -> None:
    skipped, application = len(found.plan.skips), found.application
    if not found.needs_confirmation or confirmed == application:
        return
    if confirmed is None and sys.stdin.isatty():
        print(
            f"\nRecords of {counted(skipped, 'shard')} will be skipped for ever. To go on, type the application's "
            "name: ",
            file=sys.stderr,
            end="",
            flush=True,
        )
        if sys.stdin.readline().strip() == application:
            return
    raise SeekRefused(
        f"records of {counted(skipped, 'shard')} would be skipped for ever: nothing has been moved. Add --confirm "
        f"{application}"
    )


SEEK = Command("seek", "move positions to a time, a snapshot or another application's", add_seek_arguments, seek)
RESTORE = Command("restore", "move positions back to a snapshot", add_restore_arguments, seek)
UNDO = Command("undo", "undo the last seek", add_undo_arguments, undo)
