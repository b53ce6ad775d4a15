"""The two sides' workers as processes on this machine, each with its own worker id and log."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from infra.local.embedded import ROOT, EmbeddedAws

KCL_RS_PYTHON = ROOT / ".local" / "bench" / "bin" / "python"
FAILOVER_SECONDS = 10
"""KCL's default, which users of kcl-rs cannot change."""
STOP_LIMIT = 60.0
HANDLERS = ROOT / "tests" / "e2e" / "handlers"
NOTHING_MORE: Mapping[str, str] = MappingProxyType({})


class Side(StrEnum):
    """Prefixes of worker ids."""

    KCL_RS = "kcl-rs"
    KCL_2 = "kcl2"
    KCL_3 = "kcl3"
    KCL_3_4 = "kcl34"
    MULTILANG = "multilang"
    SUBLET = "sublet"


KCL_SIDES = (Side.KCL_RS, Side.KCL_2, Side.KCL_3, Side.KCL_3_4, Side.MULTILANG)


class How(StrEnum):
    KILLED = "killed"
    STOPPED = "stopped"


class End(NamedTuple):
    """How and when (nanoseconds since the epoch) the story ended a worker."""

    how: How
    at: int


@dataclass
class Worker:
    """A worker process; `end` is None while it works."""

    side: Side
    worker_id: str
    process: subprocess.Popen[bytes]
    log: Path
    end: End | None = None

    def kill(self) -> None:
        self.end = End(How.KILLED, time.time_ns())
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """SIGTERM, and wait for the graceful end."""
        self.end = End(How.STOPPED, time.time_ns())
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(STOP_LIMIT)


@dataclass(frozen=True)
class Employer:
    """Starts workers of one application on one stream. `folder` gets their logs and records."""

    aws: EmbeddedAws
    application: str
    stream: str
    folder: Path
    start_position: str = "TRIM_HORIZON"
    failover_seconds: int = FAILOVER_SECONDS

    def kcl_rs(self, name: str, **environment: str) -> Worker:
        worker_id = f"kcl-rs-{name}"
        script = str(Path(__file__).with_name("kcl_rs_worker.py"))
        arguments = [self.application, self.stream, worker_id, self.start_position]
        return self.start(Side.KCL_RS, worker_id, [str(KCL_RS_PYTHON), script, *arguments], environment)

    def sublet(
        self,
        name: str,
        handler: str = "recorder:handle",
        environment: Mapping[str, str] = NOTHING_MORE,
        **more: str,
    ) -> Worker:
        """`handler` is in tests/e2e/handlers; `more`: options in addition to those of every test."""
        worker_id = f"sublet-{name}"
        settings = {
            "--worker-id": worker_id,
            "--failover-time": f"{self.failover_seconds}s",
            "--heartbeat-interval": f"{self.failover_seconds // 3}s",
            "--start-position": self.start_position,
            "--idle-poll-interval": "500ms",
            **{f"--{option.replace('_', '-')}": value for option, value in more.items()},
        }
        pairs = [word for option in settings.items() for word in option]
        command = [sys.executable, "-m", "sublet", "run", "--application", self.application]
        command += ["--stream", self.stream, "--handler", handler, *pairs]
        return self.start(Side.SUBLET, worker_id, command, {"PYTHONPATH": str(HANDLERS), **environment})

    def start(self, side: Side, worker_id: str, command: list[str], environment: Mapping[str, str]) -> Worker:
        log = self.folder / f"{worker_id}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                env={**self.environment, **environment},
                cwd=self.folder,
                stdout=output,
                stderr=output,
            )
        return Worker(side, worker_id, process, log)

    @property
    def environment(self) -> dict[str, str]:
        """Only this employer's AWS, and nothing of our own environment."""
        return {"PATH": os.environ["PATH"], "RECORDER_DIRECTORY": str(self.folder), **self.aws.environment}
