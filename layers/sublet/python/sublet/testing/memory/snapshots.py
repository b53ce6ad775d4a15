"""Snapshots in memory."""

from __future__ import annotations

from threading import Lock

from sublet.protocol.snapshot import Snapshot, in_order


class MemorySnapshotStore:
    """The SnapshotStore port. Safe for threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: dict[str, Snapshot] = {}

    def keep_snapshot(self, snapshot: Snapshot) -> None:
        with self._lock:
            self._kept[snapshot.name] = snapshot

    def snapshots(self) -> tuple[Snapshot, ...]:
        with self._lock:
            return in_order(self._kept.values())

    def delete_snapshot(self, name: str) -> None:
        with self._lock:
            self._kept.pop(name, None)
