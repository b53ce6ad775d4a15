"""`sublet seek` and `sublet undo`: move an application's positions, and take that back."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sublet.cli.command import Command, explain
from sublet.cli.operated import operated
from sublet.cli.pausing import operator
from sublet.cli.place import place
from sublet.cli.settings_options import add_setting
from sublet.cli.shards_option import add_shards
from sublet.cli.shown import counted, time_text
from sublet.cli.snapshots import lease_table, snapshot_store, stream_of
from sublet.errors import SeekRefused, SnapshotUnreadable
from sublet.settings import DEFINITIONS, Settings

if TYPE_CHECKING:
    from sublet.operate.planned_seek import PlannedSeek, SeekTarget
    from sublet.ports import Ports, SnapshotStore
    from sublet.protocol.lease import LeaseScan
    from sublet.protocol.shard import Shard
    from sublet.protocol.snapshot import Snapshot

SEEK_DESCRIPTION = """\
Move an application's positions: to the beginning of the stream (`earliest`), to its end (`latest`), to a time (ISO 8601 with a
time zone), to a time ago (`90m`, `2h`, `1d`), or to a snapshot, a file or another application's positions. The fleet may go on
running, Java's KCL too: each lease is taken from its owner in the same write, and the next owner begins at the new position.

Without --execute it only prints the plan: each shard, where it is now, where it would be, what that repeats or skips, in time and
in records, and how long the fleet then needs to catch up. These are estimates, from CloudWatch's IncomingRecords or the leases'
own reports; `?` is not known. A shard that a reshard has ended opens again, and its children wait for it. Before it moves
anything it takes a snapshot; `sublet undo` goes back to it. A handler must expect records that it has had before.

Of an application of several streams it moves all, or those of --stream. Name a shard in full then, as `sublet status` does, or
by its own id with --stream."""

SEEK_EXAMPLES = """\
examples:
  sublet seek 1h --application orders-audit --stream orders
  sublet seek 2026-11-22T08:00:00Z --application orders-audit --stream orders --execute
  sublet seek earliest --application orders-audit --stream orders --shard shardId-000000000003 --execute
  sublet seek --to-snapshot before-release --application orders-audit --stream orders --execute
  sublet seek --like orders-billing --application orders-audit --stream orders"""

RESTORE_DESCRIPTION = """\
Return to a snapshot of the positions: `sublet seek --to-snapshot` under its own name. Without --execute
it only prints the plan."""

RESTORE_EXAMPLES = """\
examples:
  sublet restore before-release --application orders-audit --stream orders
  sublet restore before-release --application orders-audit --stream orders --shard shardId-000000000003 --execute"""

UNDO_DESCRIPTION = """\
Take back the last seek: every lease that it moved returns to where it was. If the seek went forward, what the fleet has handled
since comes again; if it went back, what the fleet has not repeated yet is left out. An undo takes a snapshot too, so that a
second undo takes back the first. Without --execute it only prints the plan. Of an application of several streams, --stream takes
it back for one."""

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
    where.add_argument("--to-snapshot", metavar="NAME", help="return to a snapshot")
    where.add_argument(
        "--from-file", metavar="FILE", type=Path, help="to the positions of a file of `sublet snapshot`"
    )
    where.add_argument(
        "--like", metavar="APPLICATION", help="to the positions that another application has now"
    )
    add_shards(parser)
    _add_seeking(parser)


def add_restore_arguments(parser: ArgumentParser) -> None:
    explain(parser, RESTORE_DESCRIPTION, RESTORE_EXAMPLES)
    parser.add_argument("to_snapshot", metavar="NAME", help="of the snapshot: `sublet snapshots` lists them")
    parser.set_defaults(place=None, from_file=None, like=None)
    add_shards(parser)
    _add_seeking(parser)


def add_undo_arguments(parser: ArgumentParser) -> None:
    explain(parser, UNDO_DESCRIPTION, UNDO_EXAMPLES)
    _add_seeking(parser)


def _add_seeking(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--execute", action="store_true", help="do it; without this option only the plan is printed"
    )
    parser.add_argument(
        "--confirm", metavar="APPLICATION",
        help="the application's name once more, where records of more than one shard are skipped for ever",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="the plan as JSON")
    for name in ("application", "stream"):
        add_setting(parser, DEFINITIONS[name])


def seek(options: Namespace) -> int:
    settings, ports = operated(options, required=("application", "stream"))
    scan, shards = ports.table.scan(), ports.stream.list_shards()
    snapshots = snapshot_store(settings)
    wanted = _wanted(options, settings, ports, snapshots, shards)
    return _carry_out(options, settings, ports, snapshots, scan, shards, wanted)


def undo(options: Namespace) -> int:
    from sublet.operate.planned_seek import before_the_last

    settings, ports = operated(options, required=("application", "stream"))
    scan, shards = ports.table.scan(), ports.stream.list_shards()
    snapshots = snapshot_store(settings)
    wanted = before_the_last(settings.application, snapshots, shards, ports)
    return _carry_out(options, settings, ports, snapshots, scan, shards, wanted)


def _wanted(
    options: Namespace, settings: Settings, ports: Ports, snapshots: SnapshotStore, shards: Sequence[Shard]
) -> SeekTarget:
    from sublet.operate.planned_seek import at_application, at_place, at_positions, at_snapshot, shards_asked
    from sublet.several_streams import named_shards

    if options.to_snapshot is not None:
        return at_snapshot(
            options.to_snapshot, settings.application, snapshots, shards, options.shards, ports
        )
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
        raise SeekRefused(f"{file} is not a snapshot: it is no text") from None
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
) -> int:
    from sublet.aws.inspection import AwsInspection
    from sublet.cli.seek_plan import plan_json, plan_lines
    from sublet.operate.planned_seek import carry_out, planned, seek_of

    known = stream_of(settings.application)
    inspection = AwsInspection(settings, None if known is None else known.arn)
    found = planned(settings.application, known, scan, shards, wanted, ports, inspection)
    if options.json:
        print(json.dumps(plan_json(found), indent=2))
    else:
        for line in plan_lines(found, ports.clock.now()):
            print(line)
    if not found.plan.moves:
        return 0
    if not options.execute:
        print("\nNothing has been moved: add --execute.", file=sys.stderr)
        return 0
    _confirm(found, options.confirm)
    seek = seek_of(found, ports)
    try:
        carry_out(found, seek, snapshots, operator())
    except KeyboardInterrupt:
        moved = f"{len(seek.before):,} of {counted(len(found.plan.moves), 'lease')}"
        print(f"\n{moved} moved. `sublet undo` takes that back.", file=sys.stderr)
        raise
    print(f"\n{counted(len(seek.before), 'lease')} moved. `sublet undo` takes it back.", file=sys.stderr)
    return 0


def _confirm(found: PlannedSeek, confirmed: str | None) -> None:
    skipped, application = len(found.plan.skips), found.application
    if not found.needs_confirmation or confirmed == application:
        return
    if confirmed is None and sys.stdin.isatty():
        print(
            f"\nRecords of {skipped} shards are skipped for ever. The application's name, to go on: ",
            file=sys.stderr, end="", flush=True,
        )  # fmt: skip
        if sys.stdin.readline().strip() == application:
            return
    raise SeekRefused(
        f"records of {skipped} shards would be skipped for ever: nothing has been moved. Add --confirm {application}"
    )


SEEK = Command("seek", "move the positions, to a time, a snapshot or another's", add_seek_arguments, seek)
RESTORE = Command("restore", "return to a snapshot", add_restore_arguments, seek)
UNDO = Command("undo", "take back the last seek", add_undo_arguments, undo)
