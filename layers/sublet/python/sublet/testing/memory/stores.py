"""What is kept beside the leases, without a network: control, snapshots and sketches."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime
from threading import Lock

from msgspec.structs import replace

from sublet.decisions.load.sketch import ShardSketch
from sublet.decisions.load.sketch_json import decode_sketch, encode_sketch
from sublet.decisions.load.sketch_places import SketchPlace, placed, together
from sublet.errors import ControlUnreadable
from sublet.protocol.control import NO_CONTROL, Control
from sublet.protocol.snapshot import Snapshot, in_order


class MemoryControlStore:
    """The ControlStore port. Safe for threads."""

    def __init__(self, now: Callable[[], datetime] | None = None) -> None:
        """`now`: the store's own clock."""
        self._now = now
        self._lock = threading.Lock()
        self._control = NO_CONTROL
        self._is_damaged = False

    def damage(self) -> None:
        """Makes every read raise ControlUnreadable from now on, until the control is replaced."""
        with self._lock:
            self._is_damaged = True

    def control(self) -> Control:
        with self._lock:
            if self._is_damaged:
                raise ControlUnreadable("the application's control is damaged")
            return self._control

    @property
    def answered_at(self) -> datetime | None:
        return None if self._now is None else self._now()

    def keep_control(self, control: Control) -> bool:
        with self._lock:
            if self._is_damaged or control.round != self._control.round:
                return False
            self._control = replace(control, round=control.round + 1)
            return True

    def replace_unreadable(self) -> None:
        with self._lock:
            if self._is_damaged:
                self._control, self._is_damaged = NO_CONTROL, False


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


class MemorySketchStore:
    """The SketchStore port. Safe for threads. Sketches are kept as bytes, as in a table."""

    def __init__(self, *, with_names: bool = False) -> None:
        self._lock = threading.Lock()
        self._with_names = with_names
        self._places: tuple[SketchPlace, ...] = ()
        self._stored: dict[int, bytes] = {}

    def keep(self, sketch: ShardSketch) -> bool:
        with self._lock:
            found = placed(self._places, sketch, sketch.until)
            if found is None:
                return False
            place, self._places = found
            stored = decode_sketch(self._stored.get(place.number, b""))
            self._stored[place.number] = encode_sketch(together(stored, sketch), with_names=self._with_names)
            return True

    def sketches(self) -> tuple[ShardSketch, ...]:
        with self._lock:
            read = (decode_sketch(self._stored[place.number]) for place in self._places)
            return tuple(sketch for sketch in read if sketch is not None)
