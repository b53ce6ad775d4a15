"""A snapshot: an application's positions at one time, so that a seek can be undone."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct

from sublet.errors import SnapshotUnreadable
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease import Position
from sublet.protocol.stream_identity import StreamIdentity

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
VERSION = 1


class Snapshot(Struct, frozen=True):
    """
    name       unique in its application
    taken_at   UTC
    why        what it was taken for, such as the command
    positions  by lease key
    moved      the keys of the leases that a seek then moved; an undo returns only these
    then       by lease key, where the seek moved them; empty in a snapshot of an earlier version
    absent     the keys of those among `moved` that had no row. `positions` says what that meant: handled to the end, or
               not begun
    by         who took it, as a person writes it; empty if that is not known
    read_at    a time shortly before the positions were read, by AWS' clock; None in a snapshot of an earlier version. A
               shard that no reader had opened yet was to be read from some time after this
    stream     the stream of these positions; None if that is not known
    problem    why the snapshot cannot be read; then it has nothing but a name
    is_begun   a seek began, and has not stored how far it came: `moved` and `then` are the whole plan
    """

    name: str
    taken_at: datetime
    why: str
    positions: Mapping[str, Position]
    moved: tuple[str, ...] = ()
    then: Mapping[str, Position] = {}
    by: str = ""
    read_at: datetime | None = None
    stream: StreamIdentity | None = None
    is_begun: bool = False
    problem: str = ""
    absent: tuple[str, ...] = ()


def unreadable(name: str, problem: str) -> Snapshot:
    """Stands for a snapshot that is damaged or was written by a later version, so that the others can be used."""
    return Snapshot(name, _EPOCH, "cannot be read", {}, problem=problem)


def in_order(snapshots: Iterable[Snapshot]) -> tuple[Snapshot, ...]:
    """Sorts snapshots: first those that cannot be read, then the others, the newest last."""
    return tuple(sorted(snapshots, key=lambda each: (each.taken_at, each.name)))


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Compressed JSON: a file of a snapshot is the same without the compression."""
    return zlib.compress(snapshot_text(snapshot).encode())


def decode_snapshot(data: bytes) -> Snapshot:
    """Raises SnapshotUnreadable."""
    try:
        text = zlib.decompress(data).decode()
    except (zlib.error, UnicodeDecodeError) as damaged:
        raise SnapshotUnreadable(f"it is damaged: {damaged}") from None
    return read_snapshot(text)


def snapshot_text(snapshot: Snapshot) -> str:
    """The snapshot as JSON: a version, and before and after a seek [sequence number, sub-sequence number, start in
    epoch milliseconds or null] by lease key.
    """
    return json.dumps(
        {
            "version": VERSION,
            "name": snapshot.name,
            "taken_at": _millis(snapshot.taken_at),
            "why": snapshot.why,
            "moved": sorted(snapshot.moved),
            "by": snapshot.by,
            "read_at": None if snapshot.read_at is None else _millis(snapshot.read_at),
            "stream": None if snapshot.stream is None else _identity(snapshot.stream),
            "is_begun": snapshot.is_begun,
            "absent": sorted(snapshot.absent),
            "positions": _written(snapshot.positions),
            "then": _written(snapshot.then),
        }
    )


def _written(positions: Mapping[str, Position]) -> dict[str, list[str | int | None]]:
    return {
        key: [
            at.checkpoint.sequence_number,
            at.checkpoint.sub_sequence_number,
            None if at.start_at is None else _millis(at.start_at),
        ]
        for key, at in sorted(positions.items())
    }


def read_snapshot(text: str) -> Snapshot:
    """Raises SnapshotUnreadable, which says what is wrong and where."""
    try:
        read = json.loads(text)
        _check_version(read["version"])
        return Snapshot(
            str(read["name"]),
            _moment(read["taken_at"]),
            str(read["why"]),
            _positions(read["positions"]),
            tuple(map(str, read["moved"])),
            _positions(read.get("then", {})),
            str(read.get("by", "")),
            None if read.get("read_at") is None else _moment(read["read_at"]),
            None if read.get("stream") is None else _stream(read["stream"]),
            bool(read.get("is_begun", False)),
            absent=tuple(map(str, read.get("absent", ()))),
        )
    except SnapshotUnreadable:
        raise
    except Exception as problem:  # noqa: BLE001 - anyone may have written the file, with anything in it
        raise SnapshotUnreadable(f"it is not a snapshot: {type(problem).__name__}: {problem}") from None


def _positions(read: Mapping[str, Any]) -> Mapping[str, Position]:
    return {
        str(key): Position.of(Checkpoint.parse(str(number), int(sub)), None if start is None else _moment(int(start)))
        for key, (number, sub, start) in read.items()
    }


def _identity(stream: StreamIdentity) -> list[str | int]:
    return [stream.arn, _millis(stream.created_at)]


def _stream(read: Sequence[Any]) -> StreamIdentity:
    arn, created_at = read
    return StreamIdentity(str(arn), _moment(created_at))


def _check_version(version: object) -> None:
    if version != VERSION:
        raise SnapshotUnreadable(f"its version is {version!r}, and this sublet reads {VERSION}")


def _millis(moment: datetime) -> int:
    return (moment - _EPOCH) // _MILLISECOND


def _moment(millis: int) -> datetime:
    return _EPOCH + int(millis) * _MILLISECOND
