"""Runs sublet's commands as a user does: in a process of their own, with the account's credentials in its environment
and nothing else of AWS.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from infra.local.deploy import INHERITED
from infra.local.embedded import ROOT
from infra.local.guard import end_group
from tests.acceptance.outcomes import NotAsItShouldBe
from tests.acceptance.stage import Stage

SUBLET = (sys.executable, "-m", "sublet")
LAST_LINES = 15
NODE = {"JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20", "NODE_NO_WARNINGS": "1", "CI": "true"}
DRAINED_WITHIN = 60


def sublet(stage: Stage, *arguments: str, folder: Path = ROOT, variables: Mapping[str, str] | None = None) -> str:
    """Returns what it wrote. Raises NotAsItShouldBe with its last lines if it ends with an error."""
    lines: deque[str] = deque(maxlen=LAST_LINES)
    with _started(stage, arguments, folder, variables or {}) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip())
            stage.report(f"  | {line.rstrip()}")
    said = "\n".join(lines)
    if process.returncode:
        raise NotAsItShouldBe(f"sublet {arguments[0]} ended with {process.returncode}: {said}")
    return said


@contextmanager
def running_sublet(
    stage: Stage, *arguments: str, folder: Path = ROOT, variables: Mapping[str, str] | None = None
) -> Iterator[None]:
    """`sublet run`, until the block ends; then it is told to stop, and drains. Raises NotAsItShouldBe with its last
    lines.
    """
    with tempfile.TemporaryFile("w+") as log:
        try:
            with _started(stage, arguments, folder, variables or {}, log) as process:
                yield
                process.send_signal(signal.SIGTERM)
                process.wait(DRAINED_WITHIN)
            problem = f"ended with {process.returncode}" if process.returncode else None
        except Exception as failure:  # noqa: BLE001 -- raised again with the log
            problem = f"{type(failure).__name__}: {failure}"
        if problem is not None:
            log.seek(0)
            said = "\n".join(log.read().splitlines()[-LAST_LINES:])
            raise NotAsItShouldBe(f"sublet {arguments[0]}: {problem}. Its last lines: {said}")


@contextmanager
def _started(
    stage: Stage, arguments: tuple[str, ...], folder: Path, variables: Mapping[str, str], out: Any = subprocess.PIPE
) -> Iterator[subprocess.Popen[str]]:
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    environment = {**inherited, **NODE, **stage.aws.environment, **variables}
    with subprocess.Popen(
        [*SUBLET, *arguments],
        cwd=folder,
        env=environment,
        stdout=out,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # can be ended as a group: npx, the CDK's command line, the app
    ) as process:
        try:
            yield process
        except BaseException:
            end_group(process)
            raise
