"""`sublet snapshot` and `sublet snapshots`: save, list and delete an application's positions under a name."""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING

from sublet.command_line.command import Command, explain
from sublet.command_line.settings_options import add_setting, settings_of
from sublet.command_line.terminal_text import printable
from sublet.errors import LeaseTableNotFound, SeekRefused, SnapshotUnreadable
from sublet.operate.cli.options.one_stream import add_one_stream, of_one_stream
from sublet.operate.cli.options.operated import operator
from sublet.operate.formatting import time_text
from sublet.protocol.stream_identity import stream_settings
from sublet.protocol.stream_key import stream_key_of
from sublet.settings import DEFINITIONS, Settings

if TYPE_CHECKING:
    from sublet.ports import LeaseTable, SnapshotStore
    from sublet.protocol.snapshot import Snapshot
    from sublet.protocol.stream_identity import StreamIdentity

SNAPSHOT_DESCRIPTION = """\
Save all current positions of an application under a name, in the table <application>-sightings, or write them to a file
with --file. `sublet restore NAME` (or `sublet seek --from-file`) returns to them. If the application has no such table,
snapshots are files in the current folder."""

SNAPSHOT_EXAMPLES = """\
examples:
  sublet snapshot before-release --application orders-audit
  sublet snapshot before-release --application orders-audit --file before-release.json"""

SNAPSHOTS_DESCRIPTION = """\
List the snapshots of an application's positions, or delete one: those that `sublet snapshot` saved, and those that the
last seeks took for `sublet undo`."""

SNAPSHOTS_EXAMPLES = """\
examples:
  sublet snapshots --application orders-audit --json
  sublet snapshots --application orders-audit --delete before-release"""


def add_snapshot_arguments(parser: ArgumentParser) -> None:
    explain(parser, SNAPSHOT_DESCRIPTION, SNAPSHOT_EXAMPLES)
    parser.add_argument(
        "name",
        metavar="NAME",
        type=snapshot_name,
        help="the snapshot's name; an earlier one of this name is replaced",
    )
    parser.add_argument("--file", metavar="FILE", help="write it to this file instead (- for standard output)")
    add_one_stream(parser)
    add_setting(parser, DEFINITIONS["application"])


def snapshot_name(text: str) -> str:
    from sublet.operate.positions.snapshots import check_snapshot_name

    try:
        check_snapshot_name(text)
    except SeekRefused as refused:
        raise ArgumentTypeError(str(refused)) from None
    return text


def add_snapshots_arguments(parser: ArgumentParser) -> None:
    explain(parser, SNAPSHOTS_DESCRIPTION, SNAPSHOTS_EXAMPLES)
    parser.add_argument("--delete", metavar="NAME", help="delete this one")
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_one_stream(parser)
    add_setting(parser, DEFINITIONS["application"])


def take_snapshot(options: Namespace) -> int:
    from sublet.operate.positions.snapshots import snapshot_by_hand
    from sublet.protocol.snapshot import snapshot_text
    from sublet.system.clock import SystemClock

    settings = settings_of(options, os.environ, required=("application",))
    known = stream_of(settings.application)
    scan = lease_table(settings.application).scan()
    scan = of_one_stream(options.one_stream, scan, settings.application, known)
    for row in scan.malformed:
        print(f"sublet: left out {row.lease_key}, whose row cannot be read: {row.problem}", file=sys.stderr)
    taken = snapshot_by_hand(options.name, scan, SystemClock().now(), operator(), known)
    if options.file == "-":
        print(snapshot_text(taken))
    elif options.file is not None:
        write_file(Path(options.file), taken)
    else:
        snapshot_store(settings).keep_snapshot(taken)
    print(f"saved {len(taken.positions)} positions as {options.file or options.name}", file=sys.stderr)
    return 0


def list_snapshots(options: Namespace) -> int:
    settings = settings_of(options, os.environ, required=("application",))
    store = snapshot_store(settings)
    kept = store.snapshots()
    if options.delete is None:
        shown = [each for each in kept if options.one_stream is None or _is_of(options.one_stream, each)]
        print(
            json.dumps([snapshot_json(each) for each in shown], indent=2)
            if options.json
            else "\n".join(snapshot_lines(shown))
        )
        return 0
    if options.delete not in {each.name for each in kept}:
        raise SeekRefused(f"there is no snapshot {options.delete} of {settings.application}")
    store.delete_snapshot(options.delete)
    print(f"snapshot {options.delete} of {settings.application} is deleted", file=sys.stderr)
    return 0


def snapshot_lines(snapshots: Iterable[Snapshot]) -> Iterable[str]:
    """Yields a line for each snapshot, the newest last."""
    yield f"{'snapshot':<28} {'taken at':<21} {'leases':>7}  why"
    for each in snapshots:
        taken_at, leases = ("?", "?") if each.problem else (time_text(each.taken_at), str(len(each.positions)))
        why = f"{each.why}: {each.problem}" if each.problem else each.why
        yield f"{printable(each.name):<28} {taken_at:<21} {leases:>7}  {printable(why)}"


def snapshot_json(snapshot: Snapshot) -> dict[str, object]:
    """`moved`: the leases that a seek then moved, which `sublet undo` returns if it was the last. `problem`: why it
    cannot be read, and what else is shown means nothing.
    """
    return {
        "snapshot": snapshot.name,
        "taken_at": None if snapshot.problem else snapshot.taken_at.isoformat(),
        "why": snapshot.why,
        "by": snapshot.by or None,
        "stream": None if snapshot.stream is None else snapshot.stream.arn,
        "leases": len(snapshot.positions),
        "moved": sorted(snapshot.moved),
        "problem": snapshot.problem or None,
    }


def _is_of(stream: str, snapshot: Snapshot) -> bool:
    """Whether a snapshot has positions of the stream. True for an application of one stream."""
    streams = {key.stream for lease_key in snapshot.positions if (key := stream_key_of(lease_key))}
    return not streams or stream_settings(stream)["stream"] in streams


def write_file(file: Path, snapshot: Snapshot) -> None:
    from sublet.protocol.snapshot import snapshot_text

    try:
        file.write_text(snapshot_text(snapshot) + "\n")
    except OSError as problem:
        raise SeekRefused(f"the snapshot could not be written to {file}: {problem.strerror}") from None


def stream_of(application: str) -> StreamIdentity | None:
    """Returns the stream of an application's leases, if a lease manager of sublet has stored it."""
    from sublet.aws import clients
    from sublet.aws.tables.sightings import DynamoDbSightingStore
    from sublet.settings.value import SIGHTINGS_SUFFIX

    try:
        return DynamoDbSightingStore(clients.dynamodb_client, application + SIGHTINGS_SUFFIX).load().stream
    except LeaseTableNotFound:
        return None


class SnapshotFiles:
    """The SnapshotStore port over a folder, for an application of KCL alone, which has no sightings table."""

    def __init__(self, folder: Path, application: str) -> None:
        self._folder = folder
        self._prefix = f"{application}-snapshot-"

    def keep_snapshot(self, snapshot: Snapshot) -> None:
        write_file(self._path(snapshot.name), snapshot)

    def snapshots(self) -> tuple[Snapshot, ...]:
        from sublet.protocol.snapshot import in_order

        return in_order(map(self._read, self._folder.glob(f"{escape(self._prefix)}*.json")))

    def _read(self, file: Path) -> Snapshot:
        from sublet.protocol.snapshot import read_snapshot, unreadable

        try:
            return read_snapshot(file.read_text())
        except (SnapshotUnreadable, UnicodeDecodeError, OSError) as problem:
            return unreadable(file.stem.removeprefix(self._prefix), f"{file}: {problem}")

    def delete_snapshot(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._folder / f"{self._prefix}{name}.json"


def snapshot_store(settings: Settings) -> SnapshotStore:
    """Keeps snapshots in the sightings table, or in the current folder if there is no such table."""
    from sublet.aws import clients
    from sublet.operate.aws.snapshots import DynamoDbSnapshotStore

    store = DynamoDbSnapshotStore(clients.dynamodb_client, settings.sightings_table)
    try:
        store.snapshots()
    except LeaseTableNotFound:
        print(
            f"sublet: there is no table {settings.sightings_table}, so snapshots are files in {Path.cwd()}",
            file=sys.stderr,
        )
        return SnapshotFiles(Path.cwd(), settings.application)
    return store


def lease_table(application: str, *, several: bool | None = None) -> LeaseTable:
    """`several`: see `scan_of`."""
    from sublet.aws import clients
    from sublet.aws.tables.lease_table import DynamoDbLeaseTable

    return DynamoDbLeaseTable(clients.dynamodb_client(), application, several=several)


SNAPSHOT = Command("snapshot", "save all positions under a name", add_snapshot_arguments, take_snapshot)
SNAPSHOTS = Command("snapshots", "list the snapshots", add_snapshots_arguments, list_snapshots)
