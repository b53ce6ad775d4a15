"""Metrics in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sublet.ports import Unit


@dataclass(frozen=True, slots=True)
class Measurement:
    name: str
    value: float
    unit: Unit
    dimensions: Mapping[str, str]


class MemoryMetrics:
    """The Metrics port. `measurements` are all that were ever put; `flushes` counts the calls of flush."""

    def __init__(self) -> None:
        self.measurements: list[Measurement] = []
        self.flushes = 0

    def put(self, name: str, value: float, unit: Unit = Unit.COUNT, **dimensions: str) -> None:
        self.measurements.append(Measurement(name, value, unit, MappingProxyType(dimensions)))

    def flush(self) -> None:
        self.flushes += 1

    def values(self, name: str, **dimensions: str) -> list[float]:
        """The values put under the name, in order; with dimensions, those that had them all."""
        wanted = dimensions.items()
        return [m.value for m in self.measurements if m.name == name and wanted <= m.dimensions.items()]
