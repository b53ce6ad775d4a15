"""Finds the environment of the Spark benchmarks: `.local/spark`, if it exists and Java is installed. Needs neither
itself.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from typing import Any

from benchmarks.peers import ROOT

PYTHON = ROOT / ".local/spark/bin/python"
MISSING = "not measured: it needs Java 17 or newer, and `make bench BENCH=spark` installs PySpark in .local/spark"


def is_there() -> bool:
    if not PYTHON.exists():
        return False
    try:
        return subprocess.run(["java", "-version"], capture_output=True, check=False).returncode == 0  # noqa: S607
    except FileNotFoundError:
        return False


def measured_on_spark(module: str, environment: Mapping[str, str] | None = None) -> Any:
    """The last line printed by `python -m <module>`, as JSON; None without Spark.

    Runs in a session of its own, so that the CPU time of all its processes can be measured, the JVM and Spark's
    Python workers. They write bytecode even if the machine forbids it, as installed packages have; otherwise each
    worker would compile sublet at its start.
    """
    if not is_there():
        return None
    paths = [str(ROOT / "layers/sublet/python"), str(ROOT)]
    run = subprocess.run(
        [str(PYTHON), "-m", module],
        check=False,
        capture_output=True,
        text=True,
        start_new_session=True,
        env={
            **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
            **(environment or {}),
            "PYTHONPATH": os.pathsep.join(paths),
            "PYSPARK_PYTHON": str(PYTHON),
        },
    )
    if run.returncode != 0:
        raise ChildProcessError(f"{module} failed:\n{run.stderr[-5000:]}")
    return json.loads(run.stdout.splitlines()[-1])
