"""Snapshots of an application's positions. A person takes some, and each seek takes one; of the latter the last few are
kept.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from sublet.errors import SeekRefused
from sublet.ports import SnapshotStore
from sublet.protocol.lease import LeaseScan
from sublet.protocol.snapshot import Snapshot
from sublet.protocol.stream_identity import StreamIdentity

BY_HAND = "by hand"
AUTOMATIC_NAME = re.compile(r"seek-\d{8}T\d{6}\.\d{6}Z")
"""The names that `automatic_name` makes."""

AUTOMATIC_KEPT = 5
"""How many of the snapshots that seeks take to keep."""

SCANNED_WITHIN = timedelta(seconds=10)
"""The longest that a scan may take. A scan says only when it ended, and a lease that was opened during it must not be
moved to a later time.
"""

SNAPSHOT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""Snapshot names are also valid file names."""


def check_snapshot_name(name: str) -> None:
    """Raises SeekRefused."""
    if not SNAPSHOT_NAME.fullmatch(name):
        raise SeekRefused(f"{name!r} is not a name of 1 to 100 of A-Z a-z 0-9 . _ -")


def snapshot_by_hand(name: str, scan: LeaseScan, now: datetime, by: str, stream: StreamIdentity | None) -> Snapshot:
    """Makes the snapshot that a person takes. Raises SeekRefused for a name that is not allowed."""
    check_snapshot_name(name)
    return snapshot_of(name, scan, now, BY_HAND, by, stream)


def snapshot_of(
    name: str, scan: LeaseScan, now: datetime, why: str, by: str, stream: StreamIdentity | None
) -> Snapshot:
    """Makes a snapshot of all positions. `why` and `by`: what for, and who ordered it. `stream`: the stream that they
    are of, if known.
    """
    held = {lease.lease_key: lease.position for lease in scan.leases}
    return Snapshot(name, now, why, held, by=by, read_at=began_at(scan, now), stream=stream)


def began_at(scan: LeaseScan, now: datetime) -> datetime:
    """Returns a moment before the scan began."""
    return (scan.at or now) - SCANNED_WITHIN


def seeks_made(snapshots: SnapshotStore) -> frozenset[str]:
    """Returns the names of the snapshots of all seeks that are kept."""
    return frozenset(each.name for each in snapshots.snapshots() if each.why != BY_HAND)


def automatic_name(now: datetime) -> str:
    return f"seek-{now:%Y%m%dT%H%M%S.%f}Z"


def after_all(snapshots: SnapshotStore, now: datetime) -> datetime:
    """Returns a moment after every other snapshot's, so that an undo finds the last seek even if another operator's
    clock is ahead.
    """
    latest = max((each.taken_at for each in snapshots.snapshots()), default=None)
    return now if latest is None else max(now, latest + timedelta(milliseconds=1))


def forget_old(snapshots: SnapshotStore) -> None:
    """Deletes the oldest snapshots that seeks took. Keeps those that a person took, whatever their names."""
    seeks = [each for each in snapshots.snapshots() if AUTOMATIC_NAME.fullmatch(each.name) and each.why != BY_HAND]
    for old in seeks[:-AUTOMATIC_KEPT]:
        snapshots.delete_snapshot(old.name)
