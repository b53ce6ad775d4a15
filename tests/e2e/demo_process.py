"""A demo, started as a user starts it: its output, and the processes that it leaves running."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class DemoProcess:
    process: subprocess.Popen[bytes]
    output: Path

    @property
    def said(self) -> str:
        return self.output.read_text()

    def wait(self, timeout: float) -> int:
        """Returns its exit code."""
        return self.process.wait(timeout=timeout)

    def wait_until_it_says(self, text: str, within: float) -> None:
        deadline = time.monotonic() + within
        while text not in self.said:
            assert self.process.poll() is None, self.said
            assert time.monotonic() < deadline, self.said
            time.sleep(0.1)

    def processes(self) -> dict[int, str]:
        """Every process below it that is running, with its command."""
        return alive(_descendants(self.process.pid))

    def stop(self, asked: signal.Signals) -> None:
        """It ends as requested, and so does every process that it has started."""
        started = set(self.processes())
        self.process.send_signal(asked)
        assert self.wait(60) == 130, self.said
        assert "nothing is left running" in self.said
        assert alive(started) == {}


@contextmanager
def demo_process(
    python: str, module: str, output: Path, *arguments: str, events: int = 20_000, **environment: str
) -> Iterator[DemoProcess]:
    """`python -m module`, with its output in a file; killed at the end of the block if it still runs."""
    with output.open("wb") as file:
        process = subprocess.Popen(
            [python, "-m", module, *arguments],
            cwd=ROOT,
            env={**os.environ, "DEMO_EVENTS": str(events), "PYTHONUNBUFFERED": "1", **environment},
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        yield DemoProcess(process, output)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def alive(pids: set[int]) -> dict[int, str]:
    """Those still running (without zombies), with their commands."""
    command = ["ps", "-ww", "-eo", "pid=,stat=,args="]  # whole lines, wherever the machine keeps it
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    processes = (line.split(maxsplit=2) for line in listing.splitlines())
    return {int(pid): what[0] for pid, state, *what in processes if int(pid) in pids and not state.startswith("Z")}


def _descendants(pid: int) -> set[int]:
    """Every process below `pid`, whatever group or session it is in."""
    listing = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout  # noqa: S607
    parent_of = {int(child): int(parent) for child, parent in (line.split() for line in listing.splitlines())}
    found, generation = set[int](), {pid}
    while generation:
        generation = {child for child, parent in parent_of.items() if parent in generation} - found
        found |= generation
    return found
