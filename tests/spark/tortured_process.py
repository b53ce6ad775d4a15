"""The process of `tortured_program`, which is started again after each kill."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any

from infra.local import EmbeddedAws
from tests.spark.local_session import ROOT
from tests.spark.processes import kill_session
from tests.spark.tortured_program import ENDED, KILLED

LIMIT_SECONDS = 600

WORN = ("Stream closed", "Broken pipe", "Connection reset", "An error occurred while calling", "EOFException")
"""How a run fails because Spark hands it Python workers that were killed after their last task. `sublet pipeline` is
a process a run."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """killed: what was killed, and in which moments. error: how the order ended; None if well. said: its lines."""

    killed: tuple[str, ...]
    error: str | None
    said: tuple[str, ...] = ()

    @property
    def is_well(self) -> bool:
        return self.error is None


class SparkProcess:
    def __init__(self, aws: EmbeddedAws, folder: Path, conf: Mapping[str, str]) -> None:
        own = {"spark.master": "local[2,4]", "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
        self.errors = folder / "stderr"
        self._environment = {**os.environ, **aws.environment, "PYTHONPATH": str(ROOT)}
        self._conf = [word for name, value in {**own, **conf}.items() for word in ("--conf", f"{name}={value}")]
        self._running: subprocess.Popen[str] | None = None
        self._is_worn = False

    def order(self, given: Mapping[str, Any], linger: float = 0.0) -> Outcome:
        """`linger`: how many seconds whatever a kill has left over may go on."""
        outcome = self._order(given, linger)
        if self._is_worn and not outcome.killed and any(text in (outcome.error or "") for text in WORN):
            self.end()
            outcome = self._order(given, linger)
        self._is_worn = self._running is not None and (self._is_worn or bool(outcome.killed))
        return outcome

    def _order(self, given: Mapping[str, Any], linger: float) -> Outcome:
        process = self._running = self._running or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(given) + "\n")
        process.stdin.flush()
        killed, said, ends = list[str](), list[str](), False
        limit = Timer(LIMIT_SECONDS, kill_session, [process.pid])
        limit.start()
        error: str | None = None
        try:
            for line in process.stdout:
                said.append(line)
                if line.startswith(f'["{KILLED}"'):
                    _, victim, what = json.loads(line)
                    killed.append(f"{victim}, {what}")
                    ends = ends or victim in ("all", "jvm")
                if line.startswith(f'["{ENDED}"'):
                    error = json.loads(line)[1]
                    break
            else:
                ends, error = True, "its process was killed" if killed else f"its process ended: {self.said()}"
        finally:
            limit.cancel()
        if ends:
            time.sleep(linger)
            self.end()
        return Outcome(tuple(killed), error, tuple(said))

    def said(self) -> str:
        return self.errors.read_text()[-3000:] if self.errors.exists() else ""

    def end(self) -> None:
        if self._running is not None:
            kill_session(self._running.pid)
            self._running.communicate()
            self._running = None

    def _start(self) -> subprocess.Popen[str]:
        with self.errors.open("w") as errors:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.spark.tortured_program", *self._conf],
                cwd=ROOT,
                env=self._environment,
                start_new_session=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
