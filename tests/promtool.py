"""Prometheus' own tool, from Debian's package `prometheus`: skipped where it is absent, but not where CI is set."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def promtool(*arguments: str, given: str | None = None, folder: Path | None = None) -> tuple[int, str]:
    """Its exit code, and all that it said."""
    found = shutil.which("promtool")
    if found is None:
        message = "needs promtool, which Debian's package `prometheus` has"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    done = subprocess.run(
        [found, *arguments], input=given, capture_output=True, text=True, check=False, timeout=60, cwd=folder
    )
    return done.returncode, done.stdout + done.stderr
