"""`sublet seek` and `sublet undo`: move an application's positions, and take that back."""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sublet.cli.command import Command, explain
from sublet.cli.place import EARLIEST, place
from sublet.cli.seek_plan import plan_json, plan_lines
from sublet.cli.settings_options import add_setting, settings_of
from sublet.cli.shown import time_text
from sublet.cli.snapshots import lease_table, snapshot_store, stream_of
from sublet.errors import SeekRefused, SnapshotUnreadable
from sublet.protocol.lease import shard_id_of
from sublet.settings import DEFINITIONS, Settings

if TYPE_CHECKING:
    from sublet.decisions.seek import SeekPlan
    from sublet.ports import Ports, SnapshotStore
    from sublet.protocol.lease import LeaseScan, Position
    from sublet.protocol.shard import Shard
    from sublet.protocol.snapshot import Snapshot

SEEK_DESCRIPTION = """\
Move an application's positions: to the beginning of the stream (`earliest`), to its end (`latest`), to a time (ISO 8601 with a
time zone), to a time ago (`90m`, `2h`, `1d`), or to a snapshot, a file or another application's positions. The fleet may go on
running, Java's KCL too: each lease is taken from its owner in the same write, and the next owner begins at the new position.

Without --execute it only prints the plan: each shard, where it is now, where it would be, and what that repeats or skips. A
shard that a reshard has ended opens again, and its children wait for it. Before it moves anything it takes a snapshot;
`sublet undo` goes back to it. A handler must expect records that it has had before."""

SEEK_EXAMPLES = """\
examples:
  sublet seek 1h --application orders-audit --stream orders
  sublet seek 2026-11-22T08:00:00Z --application orders-audit --stream orders --execute
  sublet seek earliest --application orders-audit --stream orders --shard shardId-000000000003 --execute
  sublet seek --to-snapshot before-release --application orders-audit --stream orders --execute
  sublet seek --like orders-billing --application orders-audit --stream orders"""

UNDO_DESCRIPTION = """\
Take back the last seek: every lease that it moved returns to where it was. What the fleet has handled since comes again, or, if
the seek went back, is not waited for. An undo takes a snapshot too, so that a second undo takes back the first. Without --execute
it only prints the plan."""

UNDO_EXAMPLES = """\
examples:
  sublet undo --application orders-audit --stream orders
  sublet undo --application orders-audit --stream orders --execute"""

AUTOMATIC = "seek-"
AUTOMATIC_KEPT = 5
"""Snapshots that seeks take, the newest ones."""

NAMED_SKIPS = 1
"""Shards that may be skipped without the application's name."""


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
    parser.add_argument(
        "--shard",
        dest="shards",
        metavar="SHARD",
        action="append",
        default=[],
        help="only this shard; may be repeated",
    )
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
    settings = settings_of(options, os.environ, required=("application", "stream"))
    ports, snapshots = _ports(settings)
    scan, shards = ports.table.scan(), ports.stream.list_shards()
    wanted, what = _wanted(options, settings, ports, snapshots, shards)
    return _carry_out(options, settings, ports, snapshots, scan, shards, wanted, what, options.shards)


def undo(options: Namespace) -> int:
    from sublet.decisions.seek import positions_like

    settings = settings_of(options, os.environ, required=("application", "stream"))
    ports, snapshots = _ports(settings)
    seeks = [each for each in snapshots.snapshots() if each.moved]
    if not seeks:
        raise SeekRefused(f"no seek of {settings.application} is known that could be undone")
    last = seeks[-1]
    scan, shards = ports.table.scan(), ports.stream.list_shards()
    wanted = positions_like(shards, _by_shard(last.positions))
    moved = [shard_id_of(lease_key) for lease_key in last.moved]
    what = f"undo {last.why} of {time_text(last.taken_at)}"
    return _carry_out(options, settings, ports, snapshots, scan, shards, wanted, what, moved)


def _ports(settings: Settings) -> tuple[Ports, SnapshotStore]:
    from sublet.aws.ports import aws_ports

    return aws_ports(settings, "sublet", output=None), snapshot_store(settings)


def _wanted(
    options: Namespace,
    settings: Settings,
    ports: Ports,
    snapshots: SnapshotStore,
    shards: Sequence[Shard],
) -> tuple[Mapping[str, Position], str]:
    """By shard id; and in words."""
    from sublet.decisions.seek import BEGINNING, check_parents, positions_at, positions_like
    from sublet.operate.find import places_of
    from sublet.operate.seek import check_stream

    if options.to_snapshot is not None:
        kept = {each.name: each for each in snapshots.snapshots()}
        if options.to_snapshot not in kept:
            there = ", ".join(kept) or "none"
            raise SeekRefused(
                f"there is no snapshot {options.to_snapshot} of {settings.application}; there are: {there}"
            )
        known = kept[options.to_snapshot].positions
        return positions_like(shards, _by_shard(known)), f"to snapshot {options.to_snapshot}"
    if options.from_file is not None:
        known = _snapshot_of(options.from_file).positions
        return positions_like(shards, _by_shard(known)), f"to {options.from_file}"
    if options.like is not None:
        theirs = lease_table(options.like).scan()
        positions = {lease.shard_id: lease.position for lease in theirs.leases}
        if not positions:
            raise SeekRefused(f"application {options.like} has no leases of one stream")
        check_stream(options.like, stream_of(options.like), theirs.leases, shards, ports)
        return positions_like(shards, positions), f"like {options.like}"
    moment = options.place.moment(ports.stream.service_time())
    if moment is None:
        return {shard.shard_id: BEGINNING for shard in shards}, f"to {EARLIEST}"
    named = set(options.shards) or {shard.shard_id for shard in shards}
    parents = {parent for shard in shards if shard.shard_id in named for parent in shard.parent_shard_ids}
    asked = [shard for shard in shards if shard.shard_id in named | parents]
    print(f"sublet: looking for {time_text(moment)} in {len(asked)} shards", file=sys.stderr, flush=True)
    found = places_of(asked, moment, ports)
    check_parents(asked, found, named)
    return positions_at(asked, found), f"to {options.place.text}"


def _by_shard(positions: Mapping[str, Position]) -> dict[str, Position]:
    return {shard_id_of(lease_key): position for lease_key, position in positions.items()}


def _snapshot_of(file: Path) -> Snapshot:
    from sublet.protocol.snapshot import read_snapshot

    try:
        return read_snapshot(file.read_text())
    except OSError as problem:
        raise SeekRefused(f"{file} cannot be read: {problem.strerror}") from None
    except SnapshotUnreadable as problem:
        raise SeekRefused(f"{file}: {problem}") from None


def _carry_out(
    options: Namespace,
    settings: Settings,
    ports: Ports,
    snapshots: SnapshotStore,
    scan: LeaseScan,
    shards: Sequence[Shard],
    wanted: Mapping[str, Position],
    what: str,
    only: Sequence[str],
) -> int:
    from sublet.decisions.seek import plan_seek
    from sublet.engine.manager.probing import positions
    from sublet.operate.seek import Seek, check_stream, undone_by
    from sublet.protocol.snapshot import Snapshot

    if not scan.leases:
        raise SeekRefused(f"application {settings.application} has no leases yet: there is nothing to move")
    check_stream(settings.application, stream_of(settings.application), scan.leases, shards, ports)
    plan = plan_seek(scan, shards, wanted, only)
    moved = [move.lease for move in plan.moves if move.lease is not None]
    in_time = positions(moved, ports)
    if options.json:
        print(json.dumps(plan_json(plan, in_time, what), indent=2))
    else:
        for line in plan_lines(plan, in_time, ports.clock.now()):
            print(line)
    if not plan.moves:
        return 0
    if not options.execute:
        print("\nNothing has been moved: add --execute.", file=sys.stderr)
        return 0
    _confirm(plan, options.confirm, settings.application)
    now = ports.clock.now()
    snapshot = Snapshot(
        f"{AUTOMATIC}{now:%Y%m%dT%H%M%S.%f}Z", now, f"seek {what}" if not what.startswith("undo") else what,
        {lease.lease_key: lease.position for lease in scan.leases},
    )  # fmt: skip
    snapshots.keep_snapshot(snapshot)
    done = Seek(plan, ports, what)
    try:
        done.run()
    finally:
        snapshots.keep_snapshot(undone_by(snapshot, done.before))
        _forget_old(snapshots)
    print(f"\n{len(done.before)} leases moved. `sublet undo` takes it back.", file=sys.stderr)
    return 0


def _confirm(plan: SeekPlan, confirmed: str | None, application: str) -> None:
    if len(plan.skips) <= NAMED_SKIPS or confirmed == application:
        return
    if confirmed is None and sys.stdin.isatty():
        print(
            f"\nRecords of {len(plan.skips)} shards are skipped for ever. The application's name, to go on: ",
            file=sys.stderr, end="", flush=True,
        )  # fmt: skip
        if sys.stdin.readline().strip() == application:
            return
    raise SeekRefused(
        f"records of {len(plan.skips)} shards would be skipped for ever: nothing has been moved. Add --confirm {application}"
    )


def _forget_old(snapshots: SnapshotStore) -> None:
    seeks = [each for each in snapshots.snapshots() if each.name.startswith(AUTOMATIC)]
    for old in seeks[:-AUTOMATIC_KEPT]:
        snapshots.delete_snapshot(old.name)


SEEK = Command("seek", "move the positions, to a time, a snapshot or another's", add_seek_arguments, seek)
UNDO = Command("undo", "take back the last seek", add_undo_arguments, undo)
