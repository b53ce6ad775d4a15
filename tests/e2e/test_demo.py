"""`make demo`, a short one, as a user runs it: the whole stack on the embedded AWS, and nothing left running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(400)]


def start_demo(output: Path, *arguments: str, events: int = 20_000) -> subprocess.Popen[bytes]:
    with output.open("wb") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "demo", *arguments],
            cwd=ROOT,
            env={**os.environ, "DEMO_EVENTS": str(events), "PYTHONUNBUFFERED": "1"},
            stdout=file,
            stderr=subprocess.STDOUT,
        )


def descendants(pid: int) -> set[int]:
    """Every process below `pid`, whatever group or session it has put itself into."""
    listing = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout  # noqa: S607
    parent_of = {int(child): int(parent) for child, parent in (line.split() for line in listing.splitlines())}
    found, generation = set[int](), {pid}
    while generation:
        generation = {child for child, parent in parent_of.items() if parent in generation} - found
        found |= generation
    return found


def alive(pids: set[int]) -> dict[int, str]:
    """Those that still run (a zombie that nobody waits for does not), and what they are."""
    command = ["ps", "-ww", "-eo", "pid=,stat=,args="]  # whole lines, wherever the machine keeps it
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    processes = (line.split(maxsplit=2) for line in listing.splitlines())
    return {
        int(pid): what[0] for pid, state, *what in processes if int(pid) in pids and not state.startswith("Z")
    }


def test_twenty_thousand_events_go_through_a_split_and_a_merge_and_the_proof_holds(tmp_path: Path) -> None:
    output, picture = tmp_path / "output", tmp_path / "demo.svg"
    demo = start_demo(output, "--svg", str(picture))
    code = demo.wait(timeout=380)
    said = output.read_text()
    assert code == 0, said
    assert "20,000 of 20,000 events handled" in said
    assert "0 events missing" in said
    assert "shard 1 is split into 4 and 5" in said
    assert "shards 2 and 3 are merged into 6" in said
    drawn = picture.read_text()
    assert drawn.startswith("<svg")
    assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "").replace(
        "https://www.textualize.io", ""
    )


@pytest.mark.parametrize(("asked", "at"), [(signal.SIGINT, "events flow"), (signal.SIGTERM, "cdk deploy")])
def test_stopping_it_leaves_nothing_running(tmp_path: Path, asked: signal.Signals, at: str) -> None:
    output = tmp_path / "output"
    demo = start_demo(output, events=200_000)
    try:
        deadline = time.monotonic() + 120
        while at not in output.read_text():
            assert demo.poll() is None, output.read_text()
            assert time.monotonic() < deadline, output.read_text()
            time.sleep(0.1)
        started = descendants(demo.pid)
        assert len(started) >= 4, "two guards, two servers"
        demo.send_signal(asked)
        assert demo.wait(timeout=60) == 130, output.read_text()
        assert "nothing is left running" in output.read_text()
        assert alive(started) == {}
    finally:
        if demo.poll() is None:
            demo.kill()
            demo.wait()


def test_a_number_of_events_that_makes_no_sense_is_refused_at_once(tmp_path: Path) -> None:
    output = tmp_path / "output"
    assert start_demo(output, events=12).wait(timeout=30) == 2
    assert "is no whole number from 1000 to 336776" in output.read_text()
