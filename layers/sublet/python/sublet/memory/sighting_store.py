"""Sightings in memory."""

from __future__ import annotations

from collections.abc import Mapping

from sublet.decisions.liveness import Sighting


class MemorySightingStore:
    """The SightingStore port."""

    def __init__(self) -> None:
        self._sightings: Mapping[str, Sighting] = {}

    def load(self) -> Mapping[str, Sighting]:
        return dict(self._sightings)

    def save(self, sightings: Mapping[str, Sighting]) -> None:
        self._sightings = dict(sightings)
