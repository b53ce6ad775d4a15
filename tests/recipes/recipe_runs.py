"""Runs a recipe's handler by `sublet run` on the embedded AWS, in its own folder as a user would, and kills it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.local import EmbeddedAws
from tests.docs.documents import ROOT
from tests.e2e.processes import running

RECIPES = ROOT / "examples" / "recipes"
PATIENCE = 90.0
"""Seconds, on a busy machine: start, take the leases of the process that was killed, and handle what is there."""


@dataclass(frozen=True)
class RecipeRuns:
    """handler   `module:function`, in the folder
    folder    where the process' log goes
    settings  and environment: what it runs with beside the application and the stream, which have one name
    """

    aws: EmbeddedAws
    stream: str
    code: Path
    handler: str
    folder: Path
    environment: Mapping[str, str]
    settings: Mapping[str, str]

    def run_until(self, is_done: Callable[[], bool]) -> None:
        """Ends it by SIGTERM, which must end it well, once `is_done`."""
        with running(self._environment(), self.folder, "-m", "sublet", "run") as process:
            until = time.monotonic() + PATIENCE
            while not is_done():
                assert process.poll() is None, self.log()
                assert time.monotonic() < until, self.log()
                time.sleep(0.2)
            process.terminate()
            assert process.wait(PATIENCE) == 0, self.log()

    def run_until_killed(self) -> None:
        """The handler has returned, and SIGKILL comes before its checkpoint."""
        with running(self._environment(), self.folder, "-m", "tests.recipes.killed_before_checkpoint") as process:
            assert process.wait(PATIENCE) == -signal.SIGKILL, self.log()

    def log(self) -> str:
        return (self.folder / "log").read_text()[-5000:]

    def _environment(self) -> dict[str, str]:
        named = {"application": self.stream, "handler": self.handler}
        if "streams" not in self.settings:
            named["stream"] = self.stream
        paced = {"mode": "continuous", "failover_time": "3s", "heartbeat_interval": "1s", "worker_id": "the-only-one"}
        settings = {**named, **paced, **self.settings}
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT, self.code))),
            **self.aws.environment,
            **self.environment,
            **{f"SUBLET_{name.upper()}": value for name, value in settings.items()},
        }


def put(aws: EmbeddedAws, stream: str, records: list[tuple[str, bytes]]) -> None:
    """By PutRecord, in their order."""
    kinesis = aws.client("kinesis")
    for key, data in records:
        kinesis.put_record(StreamName=stream, PartitionKey=key, Data=data)


def wait_until(is_done: Callable[[], bool], said: Callable[[], object] = str) -> None:
    until = time.monotonic() + PATIENCE
    while not is_done():
        assert time.monotonic() < until, said()
        time.sleep(0.1)
