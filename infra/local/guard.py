"""Runs one server for as long as the program that uses it lives: `python guard.py HOME COMMAND...`

The program holds the other end of this process's standard input. When that end closes, for whatever reason (a normal
stop, Ctrl-C, an exception, `kill -9`), the server and everything that it started are ended and HOME is removed. No
signal handler or atexit hook could guarantee that. This is a single file that needs only the standard library.
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
"""Seconds between SIGTERM and SIGKILL for the server's process group. kinesis-local would otherwise wait for its
clients to close their connections."""


def main(home: Path, command: list[str]) -> int:
    with (home / "log").open("wb") as log:
        server = subprocess.Popen(
            command,
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # its own process group, which Lambda's worker processes join
        )
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # not earlier: the server would inherit it
        signal.signal(ignored, signal.SIG_IGN)
    print(server.pid, flush=True)
    threading.Thread(target=_report_end, args=(server,), daemon=True).start()
    sys.stdin.buffer.read()
    end_group(server)
    # Each Lambda worker had a copy of its code: 16,000 files after a demo, for which shutil.rmtree takes three times
    # as long.
    subprocess.run(["rm", "-rf", home], check=False)  # noqa: S607 -- found on the PATH
    return 0


def _report_end(server: subprocess.Popen[bytes]) -> None:
    """Tells the program, which may still be waiting for the server's health, that the server has ended."""
    with suppress(BrokenPipeError):  # the program has gone
        print(f"ended {server.wait()}", flush=True)


def end_group(leader: subprocess.Popen[Any]) -> None:
    """End the whole group of `leader`, which exists as long as one of its processes lives.

    Ended children that no process waits for (a container's first process may not) count as members for ever, so SIGKILL
    is the last attempt.
    """
    for signal_number, patience in ((signal.SIGTERM, GRACE), (signal.SIGKILL, 1.0)):
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            try:
                leader.poll()  # an ended leader counts as a member until it is polled
                os.killpg(leader.pid, signal_number)
            except (
                ProcessLookupError,
                PermissionError,
            ):  # macOS: not permitted means that only ended ones are left
                return
            time.sleep(0.02)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
