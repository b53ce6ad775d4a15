"""`sublet console` beside the demo, so that its fleet can be watched in a browser too."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from demo.consumer import APPLICATION, STREAM
from infra.local import EmbeddedAws

LINK = re.compile(r"http://\S+/open\?link=\S+")
ENDS_WITHIN = 10.0
"""Seconds."""


@contextmanager
def console_page(aws: EmbeddedAws) -> Iterator[str | None]:
    """The link to open, while the block runs; None if the console did not start. It is read-only."""
    command = [
        sys.executable,
        "-m",
        "sublet",
        "console",
        f"{APPLICATION}={STREAM}",
        "--port",
        "0",
        "--no-browser",
    ]
    environment = {**os.environ, **aws.environment}
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        found = LINK.search(process.stdout.readline())
        try:
            yield None if found is None else found[0]
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(ENDS_WITHIN)
            except subprocess.TimeoutExpired:
                process.kill()
