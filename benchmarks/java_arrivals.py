"""Runs Java KCL workers, as tests/interop builds them, and reads from their output how long each record took to reach
them.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.runs import Bench
from tests.interop.build import Profile, build, command, problem

POLL_MILLIS = 250
"""KCL 2.x and 3.x poll once in 1.5 s by default (PollingConfig.idleTimeBetweenReadsInMillis); here, as in the interop
tests, they poll almost at the five polls a second that Kinesis allows."""


class Kcl(NamedTuple):
    """A KCL that takes part. `fans_out`: SubscribeToShard reads, by a consumer that the KCL registers."""

    name: str
    profile: Profile
    fans_out: bool = False

    @property
    def application(self) -> str:
        return f"{self.profile}-pushed" if self.fans_out else str(self.profile)


FANS_OUT = Kcl("KCL 3.x, pushed to", Profile.KCL_3, fans_out=True)
KCLS = (
    Kcl(f"KCL 2.x, each {POLL_MILLIS} ms", Profile.KCL_2),
    Kcl(f"KCL 3.x, each {POLL_MILLIS} ms", Profile.KCL_3),
    FANS_OUT,
)

Arrivals = list[tuple[float, float]]
"""When each record was put, and how many seconds it took."""


class JavaWorker:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def arrivals(self, expected: int, patience: float) -> Arrivals:
        """The first `expected` arrivals. Raises TimeoutError."""
        until = time.monotonic() + patience
        while len(found := self._found()) < expected:
            if time.monotonic() > until:
                raise TimeoutError(f"{len(found)} of {expected} records were handled: {self._folder}")
            time.sleep(1)
        return found

    def _found(self) -> Arrivals:
        lines = [line for file in self._folder.glob("*.jsonl") for line in file.read_text().splitlines(keepends=True)]
        handled = [json.loads(line) for line in lines if line.endswith("\n")]
        return [(float(data), nanoseconds / 1e9 - float(data)) for nanoseconds, *_, data in handled]


def kcls() -> Sequence[Kcl]:
    """The built workers, if Java is installed."""
    if problem() is not None:
        return ()
    build()
    return KCLS


@contextmanager
def started(bench: Bench, kcl: Kcl, stream: str) -> Iterator[JavaWorker]:
    """Starts at the stream's beginning, under an application of its own."""
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("wb") as log:
        arguments = [f"{stream}-{kcl.application}", stream, f"{kcl.application}-worker", "TRIM_HORIZON"]
        fans_out = f"-Dinterop.fansOut={str(kcl.fans_out).lower()}"
        process = subprocess.Popen(
            [*command(kcl.profile, "Consumer", fans_out), *arguments],
            env={**bench.environment, "RECORDER_DIRECTORY": folder},
            stdout=log,
            stderr=log,
        )
        try:
            yield JavaWorker(Path(folder))
        finally:
            process.kill()
            process.wait()
