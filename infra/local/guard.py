"""Run one server for as long as the program that wants it lives: `python guard.py HOME COMMAND...`

The program holds the other end of this process's standard input. When that end closes, for whatever reason (a normal
stop, Ctrl-C, an exception, `kill -9`), the server and all that it started are ended and HOME is removed. No signal
handler and no atexit hook could promise as much. Runs on the standard library alone, as a file of its own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

GRACE = 1.0
"""Seconds between asking the server's process group to end and ending it. Nothing that it holds is to outlive it; kinesis-local
would wait for its clients' open connections to close.
"""


def main(home: Path, command: list[str]) -> int:
    with (home / "log").open("wb") as log:
        server = subprocess.Popen(
            command,
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a process group of its own: Lambda's worker processes are in it too
        )
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # not before: the server would inherit it
        signal.signal(ignored, signal.SIG_IGN)
    print(server.pid, flush=True)
    threading.Thread(target=_report_end, args=(server,), daemon=True).start()
    sys.stdin.buffer.read()
    end_group(server)
    # Each Lambda worker had a copy of its code: 16,000 files after a demo, for which shutil.rmtree takes three times as long.
    subprocess.run(["rm", "-rf", home], check=False)  # noqa: S607 -- wherever the machine keeps it
    return 0


def _report_end(server: subprocess.Popen[bytes]) -> None:
    """Tell the program, which may still be waiting for the server's health, that there is nothing to wait for."""
    with suppress(BrokenPipeError):  # the program has gone, and so has the need to tell
        print(f"ended {server.wait()}", flush=True)


def end_group(leader: subprocess.Popen[Any]) -> None:
    """End the whole group of `leader`: it outlives the leader itself for as long as a child of it lives.

    Ended children that nobody waits for (a container's first process may not) count as members for ever, so the
    second signal is the last word.
    """
    for signal_number, patience in ((signal.SIGTERM, GRACE), (signal.SIGKILL, 1.0)):
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            try:
                leader.poll()  # an ended leader counts as a member until somebody asks
                os.killpg(leader.pid, signal_number)
            except (
                ProcessLookupError,
                PermissionError,
            ):  # macOS: not permitted means that only ended ones are left
                return
            time.sleep(0.02)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
