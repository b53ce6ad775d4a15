"""The sketches of the hottest shards, without a network."""

from __future__ import annotations

import threading

from sublet.decisions.load.sketch import ShardSketch
from sublet.decisions.load.sketch_json import decode_sketch, encode_sketch
from sublet.decisions.load.sketch_places import SketchPlace, placed, together


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
