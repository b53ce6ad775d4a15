"""The functions' processes. ministack runs each execution environment as a process on this machine, in a folder of
its name."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress

from infra.local.embedded import EmbeddedAws


def processes_of(aws: EmbeddedAws, function: str) -> list[int]:
    """Process ids of the function's execution environments, busy or idle, sorted."""
    groups = {server.process_group for server in aws.servers}
    listing = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,pgid=,stat=,args="],  # noqa: S607 -- wherever the machine has it
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = []
    for line in listing.splitlines():
        pid, group, state, command = line.split(maxsplit=3)
        if int(group) in groups and f"ministack-lambda-{function}-" in command and state[0] != "Z":
            found.append(int(pid))
    return sorted(found)


def send(pid: int, signal_number: signal.Signals) -> bool:
    """False if it had already ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal_number)
        return True
    return False
