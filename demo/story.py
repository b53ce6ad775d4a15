"""What the demo is doing and what has happened so far, reported from several threads."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from datetime import UTC, datetime

from demo.snapshot import PLAN, Phase, Snapshot
from demo.view import clock


class Story:
    """Phases and events, with the seconds since the start."""

    def __init__(self, plan: tuple[Phase, ...] = PLAN) -> None:
        self._plan = plan
        self.phases: list[tuple[Phase, float]] = []
        self.happenings: list[str] = []
        self._detail = ""
        self._started = time.monotonic()
        self._lock = threading.Lock()

    def now(self) -> datetime:
        return datetime.now(UTC)

    def elapsed(self) -> float:
        return time.monotonic() - self._started

    def phase(self, phase: Phase) -> None:
        with self._lock:
            self.phases.append((phase, self.elapsed()))
            self._detail = ""

    @property
    def current_phase(self) -> Phase:
        return self.phases[-1][0] if self.phases else Phase.READ

    def detail(self, line: str) -> None:
        """Sets the phase's current step."""
        with self._lock:
            self._detail = line

    def tell(self, happening: str) -> None:
        with self._lock:
            self.happenings.append(f"{clock(self.elapsed()):>5}  {happening}")

    def complete(self, snapshot: Snapshot) -> Snapshot:
        """Adds what only the story knows to the snapshot."""
        return replace(
            snapshot,
            elapsed=self.elapsed(),
            plan=self._plan,
            phase=self.current_phase,
            detail=self._detail,
            happenings=tuple(self.happenings),
        )

    def durations(self) -> list[tuple[Phase, float]]:
        """Each phase and its seconds; the last one lasts until now."""
        ends = [begin for _, begin in self.phases[1:]] + [self.elapsed()]
        return [(phase, end - begin) for (phase, begin), end in zip(self.phases, ends, strict=True)]
