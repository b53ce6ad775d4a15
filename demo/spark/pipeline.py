"""`sublet pipeline`, started as a user would, in a process of its own, until its last child process has ended."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from demo.consumer import APPLICATION, STREAM
from demo.spark.processes import descendants, end
from demo.spark.reader import SPARK_PYTHON
from infra.local import EmbeddedAws
from infra.local.embedded import ROOT
from infra.local.server import GUARD

EXAMPLE = ROOT / "examples" / "pipeline"
ARGUMENTS = (
    *("--stream", STREAM, "--application", APPLICATION, "--leases", "hold"),
    *("--schema", str(EXAMPLE / "flights.json"), "--transform", "carriers:tables", "--every", "2s"),
)

SPARK = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    # The JVM lives for a minute or two: its second compiler would use up the cores and never pay off.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}

INHERITED = ("HOME", "JAVA_HOME", "LANG", "PATH", "TMPDIR")

LEAVES_WITHIN = 20.0
"""Seconds for Spark's other processes, including the source with the keeper of its leases, to end after the
pipeline.
"""

BATCH_WITHIN = 120.0
"""Seconds for the current batch, on a busy machine."""

LOG_TAIL = 12


class PipelineFailed(Exception):
    """The pipeline did not end as requested; the message ends with the end of its log."""


class Pipeline:
    """Started by its guard, so that it ends with the demo, in whatever way. Its folder, with the tables and the log,
    is removed with it; the tables are elsewhere if `keep` is given."""

    def __init__(self, keep: Path | None) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="sublet-spark-"))
        self.lake = keep or self._home / "lake"
        self._guard: subprocess.Popen[str] | None = None
        self._pid = 0
        self._ended: queue.Queue[int] = queue.Queue()

    def start(self, aws: EmbeddedAws) -> None:
        options = [word for name, value in SPARK.items() for word in ("--conf", f"{name}={value}")]
        command = [str(SPARK_PYTHON), "-m", "sublet.spark.pipeline", *ARGUMENTS]
        own = {name: os.environ[name] for name in INHERITED if name in os.environ}
        self._guard = subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-S",
                str(GUARD),
                str(self._home),
                *command,
                "--output",
                str(self.lake),
                *options,
            ],
            env={
                **own,
                **aws.environment,
                "PYTHONUNBUFFERED": "1",
                "PYTHONPATH": str(EXAMPLE),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._guard.stdout is not None
        self._pid = int(self._guard.stdout.readline())
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def said(self) -> str:
        """What it said of its last batch: `batch 3: 12,345 rows in 4.1 s`."""
        batches = re.findall(r"^(batch \d+:) raw ([\d,]+),.* rows (in .+)$", "\n".join(self._log()), re.MULTILINE)
        return "{} {} rows {}".format(*batches[-1]) if batches else ""

    def check(self) -> None:
        """Raises PipelineFailed if it has ended."""
        with suppress(queue.Empty):
            raise self._failure(self._ended.get_nowait())

    def finish(self) -> None:
        """Ends it with SIGTERM, as a person would. It finishes its batch and gives the leases back. Raises
        PipelineFailed."""
        started = descendants(self._pid)
        os.kill(self._pid, signal.SIGTERM)
        try:
            code = self._ended.get(timeout=BATCH_WITHIN)
        except queue.Empty:
            raise PipelineFailed(f"the pipeline did not end within {BATCH_WITHIN:.0f} s of SIGTERM") from None
        if code:
            raise self._failure(code)
        end(started, LEAVES_WITHIN)

    def close(self) -> None:
        """Ends all its processes, whatever they are doing."""
        if self._guard is not None:
            started = descendants(self._guard.pid)
            assert self._guard.stdin is not None
            self._guard.stdin.close()
            self._guard.wait()
            end(started, LEAVES_WITHIN)
        else:
            self._home.rmdir()

    def _listen(self) -> None:
        assert self._guard is not None
        assert self._guard.stdout is not None
        with suppress(ValueError):  # closed while reading
            for line in self._guard.stdout:
                self._ended.put(int(line.rpartition(" ")[2]))

    def _failure(self, code: int) -> PipelineFailed:
        tail = "\n".join(f"    | {line}" for line in self._log()[-LOG_TAIL:])
        return PipelineFailed(f"the pipeline on Spark ended with {code}. Its last lines:\n{tail}")

    def _log(self) -> list[str]:
        file = self._home / "log"
        return file.read_text(errors="replace").splitlines() if file.exists() else []
