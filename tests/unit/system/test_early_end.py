"""A process that is told to end while it still imports ends at once, as after its work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PATIENCE = 60
SLOW = """
import pathlib, time
pathlib.Path("importing").touch()
try:
    time.sleep(60)
except BaseException:
    pathlib.Path("caught").touch()

def handle(batch): ...
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_sigterm_during_the_handlers_import_ends_the_process_as_if_it_had_worked(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    starting = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "sublet",
            "run",
            "--application",
            "audit",
            "--stream",
            "orders",
            "--handler",
            "slow:handle",
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "layers/sublet/python")},
    )
    try:
        ends = time.monotonic() + PATIENCE
        while not (tmp_path / "importing").exists() and time.monotonic() < ends:
            time.sleep(0.05)
        starting.send_signal(signal.SIGTERM)
        assert starting.wait(PATIENCE) == 0
    finally:
        starting.kill()
        starting.wait()
    assert not (tmp_path / "caught").exists(), "no import may catch it"


FORKING = """
import os, signal
from datetime import timedelta
from sublet.runtimes.ending import stop_at_signals, stops
from sublet.system.early_end import end_at_sigterm
from sublet.system.threads import ThreadTasks
end_at_sigterm()
tasks = ThreadTasks()
told = stops(tasks)
put_back = stop_at_signals(told, timedelta(seconds=5), tasks)
if os.fork() == 0:
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    os._exit(0)
assert os.wait()[1] == 0
os.kill(os.getpid(), signal.SIGTERM)
assert told.leaving.wait(timedelta(seconds=10))
told.is_over.set()
put_back()
assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
print("went on")
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_once_the_process_drains_at_sigterm_nothing_ends_it_early() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "layers/sublet/python")}
    done = subprocess.run(
        [sys.executable, "-c", FORKING], env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert (done.stdout, done.returncode) == ("went on\n", 0), done.stderr
