"""Java KCL workers, as built by tests/interop, and how long each record took to reach them, from the lines that they
write."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.runs import Bench
from tests.interop.build import Profile, build, command, problem

POLL_MILLIS = 250
"""KCL 2.x and 3.x poll once in 1.5 s by default (PollingConfig.idleTimeBetweenReadsInMillis); here, as in the interop
tests, they poll almost at the five polls a second that Kinesis allows."""
NAMES = {Profile.KCL_2: f"KCL 2.x, each {POLL_MILLIS} ms", Profile.KCL_3: f"KCL 3.x, each {POLL_MILLIS} ms"}

Arrivals = list[tuple[float, float]]
"""For each record, when it was put and how many seconds it took."""


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
        lines = [
            line
            for file in self._folder.glob("*.jsonl")
            for line in file.read_text().splitlines(keepends=True)
        ]
        handled = [json.loads(line) for line in lines if line.endswith("\n")]
        return [(float(data), nanoseconds / 1e9 - float(data)) for nanoseconds, *_, data in handled]


def profiles() -> Sequence[Profile]:
    """The built workers, if Java is installed."""
    if problem() is not None:
        return ()
    build()
    return tuple(NAMES)


@contextmanager
def started(bench: Bench, profile: Profile, stream: str) -> Iterator[JavaWorker]:
    """From the stream's beginning, under an application of its own."""
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("wb") as log:
        arguments = [f"{stream}-{profile}", stream, f"{profile}-worker", "TRIM_HORIZON"]
        process = subprocess.Popen(
            [*command(profile, "Consumer"), *arguments],
            env={**bench.environment, "RECORDER_DIRECTORY": folder},
            stdout=log,
            stderr=log,
        )
        try:
            yield JavaWorker(Path(folder))
        finally:
            process.kill()
            process.wait()
