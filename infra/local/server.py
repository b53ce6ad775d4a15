"""Runs one local server: starts its guard, waits until it is healthy, and ends it with everything that it started."""

from __future__ import annotations

import queue
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

GUARD = Path(__file__).with_name("guard.py")
HEALTH_LIMIT = 30.0
"""Seconds until a server must answer. Both take about one; the first start on a laptop, with nothing cached, ten."""
LOG_TAIL = 15


class ServerFailed(Exception):
    """A server of the embedded AWS did not start; the message has the reason and the end of its log."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server.

    process_group   holds the server and everything that it starts, such as Lambda's workers
    end             requests its end without waiting: call it for all servers before waiting for the first
    """

    name: str
    process_group: int
    log: Path
    end: Callable[[], None]


@contextmanager
def running(
    name: str,
    command: list[str],
    environment: Mapping[str, str],
    health_url: str,
    *,
    limit: float = HEALTH_LIMIT,
) -> Iterator[Server]:
    """Run `command` in a temporary folder until the block or this process ends, in whatever way.

    The server gets `environment` and nothing else of this process's own, and `limit` seconds to become healthy.
    Raises ServerFailed.
    """
    home = Path(tempfile.mkdtemp(prefix=f"sublet-{name}-"))
    guard = subprocess.Popen(
        [sys.executable, "-I", "-S", str(GUARD), str(home), *command],
        env={**environment, "HOME": str(home), "TMPDIR": str(home)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C in the terminal must reach only us: the guard ends the server
    )
    assert guard.stdin is not None
    try:
        yield _healthy(name, guard, home / "log", health_url, limit)
    finally:
        guard.stdin.close()
        guard.wait()
        assert guard.stdout is not None
        guard.stdout.close()


def _healthy(name: str, guard: subprocess.Popen[str], log: Path, health_url: str, limit: float) -> Server:
    assert guard.stdin is not None
    words: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_listen, args=(guard, words), daemon=True).start()
    deadline = time.monotonic() + limit
    try:
        process_group = int(words.get(timeout=limit))
    except (queue.Empty, ValueError):
        raise ServerFailed(f"{name}: could not be started; run `make setup`") from None
    while time.monotonic() < deadline:
        if _answers(health_url):
            return Server(name, process_group, log, guard.stdin.close)
        try:
            raise ServerFailed(f"{name} {words.get(timeout=0.05)} before it was healthy\n{_tail(log)}")
        except queue.Empty:
            continue
    raise ServerFailed(f"{name} did not answer at {health_url} within {limit:.0f} s\n{_tail(log)}")


def _listen(guard: subprocess.Popen[str], words: queue.Queue[str]) -> None:
    assert guard.stdout is not None
    try:
        for line in guard.stdout:
            words.put(line.strip())
    except ValueError:  # closed while reading: the server was stopped
        return


def _answers(url: str) -> bool:
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=1) as reply:
            return bool(reply.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join(f"    | {line}" for line in lines[-LOG_TAIL:]) or "    | (its log is empty)"
