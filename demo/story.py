"""What the demo is doing and what has happened so far, told from several threads."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime

from demo.view import clock


class Story:
    """Phases and happenings, with the seconds since the start."""

    def __init__(self) -> None:
        self.phases: list[tuple[str, float]] = []
        self.happenings: list[str] = []
        self._detail = ""
        self._started = time.monotonic()
        self._lock = threading.Lock()

    def now(self) -> datetime:
        return datetime.now(UTC)

    def elapsed(self) -> float:
        return time.monotonic() - self._started

    def phase(self, name: str) -> None:
        with self._lock:
            self.phases.append((name, self.elapsed()))
            self._detail = ""

    @property
    def current_phase(self) -> str:
        return self.phases[-1][0] if self.phases else ""

    def detail(self, line: str) -> None:
        """Say what the phase is at, as long as it lasts."""
        with self._lock:
            self._detail = line

    @property
    def current_detail(self) -> str:
        return self._detail

    def tell(self, happening: str) -> None:
        with self._lock:
            self.happenings.append(f"{clock(self.elapsed()):>5}  {happening}")

    def durations(self) -> list[tuple[str, float]]:
        """Each phase and its seconds; the last one lasts until now."""
        ends = [begin for _, begin in self.phases[1:]] + [self.elapsed()]
        return [(name, end - begin) for (name, begin), end in zip(self.phases, ends, strict=True)]
