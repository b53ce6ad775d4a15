"""Checks that this machine has the Java that Spark needs. Uses only the standard library, before anything is set up."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

OLDEST = 17
NEEDED = f"make demo-spark needs Java {OLDEST} or newer (any vendor's runtime will do)"


def problem() -> str | None:
    """The problem in one sentence; None if Java is where Spark looks for it."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else "java"
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        where = f"JAVA_HOME is {home}, where none runs" if home else "none is on the PATH, and JAVA_HOME is not set"
        return f"{NEEDED}; {where}."
    version = version_in(said.stderr + said.stdout)
    if version is None or version >= OLDEST:
        return None
    return f"{NEEDED}; {java} is {version}."


def version_in(text: str) -> int | None:
    """17 for `openjdk version "17.0.15"`, 8 for `java version "1.8.0_402"`; None if the text has no version."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


if __name__ == "__main__":
    sys.exit(problem())
