"""KCL workers of Java, as tests/interop builds them, and how long each record took to them: of the lines that they write."""

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
"""KCL 2.x and 3.x poll once in 1.5 s unless told otherwise (PollingConfig.idleTimeBetweenReadsInMillis): here as the interop
tests set them, near the five polls a second that Kinesis allows."""
NAMES = {Profile.KCL_2: f"KCL 2.x, each {POLL_MILLIS} ms", Profile.KCL_3: f"KCL 3.x, each {POLL_MILLIS} ms"}

Arrivals = list[tuple[float, float]]
"""Of each record, when it was put and how many seconds it took."""


class JavaWorker:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def arrivals(self, expected: int, patience: float) -> Arrivals:
        """Of so many records. Raises TimeoutError."""
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
    """Built, where Java is there."""
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
