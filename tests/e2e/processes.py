"""Runs Python programs beside the tests: sublet's command line, and programs that call it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def running(environment: Mapping[str, str], folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """This Python with `arguments`, with its output in the folder's `log`; killed at the end of the block if it still
    runs."""
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen([sys.executable, *arguments], cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
