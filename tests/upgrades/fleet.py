"""An application of several versions: their processes, started as a container's command line starts them, the
operator's commands by either version's code, and what the handler has noted."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

from infra.local import EmbeddedAws
from infra.local.embedded import HOST, free_ports
from tests.upgrades.released import Code

FAILOVER, HEARTBEAT = 6, 2
OPTIONS = {
    "--parallelization-factor": "4",
    "--batch-size": "1",
    "--failover-time": f"{FAILOVER}s",
    "--heartbeat-interval": f"{HEARTBEAT}s",
    "--checkpoint-interval": "1s",
    "--idle-poll-interval": "200ms",
    "--handler-attempts": "3",
    "--handler-backoff": "500ms",
    "--handler-backoff-max": "1s",
}
"""Options of a container's command line. Further settings come by its environment."""

PATIENCE = 90


class Noted(NamedTuple):
    """One line of the handler's journal."""

    version: str
    shard: str
    attempt: int
    is_redrive: bool
    text: str

    @property
    def is_failure(self) -> bool:
        return self.text.startswith("failed ")


class Stuck(AssertionError):
    """What was waited for did not come, with the last lines of the processes' logs."""


@dataclass
class UpgradedFleet:
    aws: EmbeddedAws
    name: str
    folder: Path
    on_failure: str
    put: list[str] = field(default_factory=list)
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    ports: dict[int, int] = field(default_factory=dict)

    def environment(self, code: Code) -> dict[str, str]:
        given = {
            **self.aws.environment,
            "UPGRADES_FOLDER": str(self.folder),
            "UPGRADES_VERSION": code.version,
            "SUBLET_STREAM": self.name,
            "SUBLET_ON_FAILURE": self.on_failure,
            "SUBLET_MAXIMUM_RETRY_ATTEMPTS": "40",
        }
        return code.environment(given)

    def start(self, code: Code, **environment: str) -> subprocess.Popen[bytes]:
        words = ["run", "--application", self.name, "--handler", "journal:handle"]
        words += [word for option in OPTIONS.items() for word in option]
        (port,) = free_ports(1)
        words += ["--health", f"{HOST}:{port}"]
        with (self.folder / f"log-{len(self.running)}-{code.version}").open("wb") as log:
            process = subprocess.Popen(
                code.command(*words),
                cwd=Path(__file__).with_name("handler"),
                env={**self.environment(code), **environment},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.running.append(process)
        self.ports[process.pid] = port
        return process

    def is_ready(self, process: subprocess.Popen[bytes]) -> bool:
        """As a container's probe asks."""
        try:
            with urlopen(f"http://{HOST}:{self.ports[process.pid]}/health/ready", timeout=5) as reply:
                return bool(json.load(reply)["ready"])
        except OSError:
            return False

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """SIGTERM, as a container's end."""
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0, self.logs()

    def end_all(self) -> None:
        for process in self.running:
            process.kill()
            process.wait()

    def operate(self, code: Code, *words: str, code_of_exit: int | None = 0) -> str:
        """A command of the operator's, by that version's own code, which must end with that code, if it is one. Returns
        what it prints."""
        done = subprocess.run(
            code.command(*words, "--application", self.name),
            cwd=Path(__file__).with_name("handler"),
            env=self.environment(code),
            capture_output=True,
            text=True,
            check=False,
        )
        said = f"sublet {' '.join(words)}, by {code.version}: {done.stdout}{done.stderr}"
        assert code_of_exit in (None, done.returncode), said
        return done.stdout

    def produce(self, count: int, prefix: str = "record") -> list[str]:
        """Records of keys of their own, numbered over the whole run."""
        kinesis = self.aws.client("kinesis")
        texts = [f"{prefix}-{len(self.put) + n}" for n in range(count)]
        entries = [{"PartitionKey": text, "Data": text.encode()} for text in texts]
        reply = kinesis.put_records(StreamName=self.name, Records=entries)
        assert reply["FailedRecordCount"] == 0, reply
        self.put += texts
        return texts

    def noted(self) -> list[Noted]:
        journal = self.folder / "journal"
        lines = journal.read_bytes().splitlines() if journal.exists() else []
        return [Noted(*json.loads(line)) for line in lines]

    def handled(self, version: str | None = None) -> Counter[str]:
        """How often each record's call began, without those on which the handler then failed."""
        noted = [each for each in self.noted() if version in (None, each.version)]
        began = Counter(each.text for each in noted if not each.is_failure)
        failed = Counter(each.text.removeprefix("failed ") for each in noted if each.is_failure)
        return began - failed

    def rows(self, table: str = "") -> list[dict[str, Any]]:
        """The items of the lease table, or of the table with this suffix."""
        pages = self.aws.client("dynamodb").get_paginator("scan")
        scanned = pages.paginate(TableName=self.name + table, ConsistentRead=True)
        return [item for page in scanned for item in page["Items"]]

    def until(self, what: str, done: Callable[[], object], seconds: float = PATIENCE) -> None:
        deadline = time.monotonic() + seconds
        while not done():
            if time.monotonic() > deadline:
                raise Stuck(f"not within {seconds:.0f} s: {what}\n{self.logs()}")
            time.sleep(0.1)

    def logs(self) -> str:
        """The last lines of the last processes."""
        logs = sorted(self.folder.glob("log-*"), key=lambda log: log.stat().st_mtime)[-3:]
        return "\n".join(f"--- {log.name}\n{_without_metrics(log)}" for log in logs)


def _without_metrics(log: Path) -> str:
    lines = (line[:1000] for line in log.read_text(errors="replace").splitlines() if '"_aws"' not in line)
    return "\n".join([*lines][-12:])
