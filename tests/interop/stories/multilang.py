"""The KCL's MultiLangDaemon and sublet take turns with one kclpy record processor, which cannot tell them apart."""

from __future__ import annotations

import subprocess
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from infra.local.embedded import HOST, EmbeddedAws, node
from tests.e2e.multilang_daemon import daemon_command, kclpy_in
from tests.interop.workers import Java
from tests.mixed_fleet.stage import Stage
from tests.mixed_fleet.workers import HANDLERS, How, Side, Worker

WORKER_ID = f"{Side.MULTILANG}-1"
"""Of every daemon here: its programs record what they get, without knowing more about it."""


@dataclass(frozen=True)
class MultiLang:
    stage: Stage
    java: Java
    repeats_nothing: Container[str] = (How.STOPPED,)

    def run(self) -> None:
        with in_http2(self.java.employer.aws) as kinesis:
            self._take_turns(kinesis)

    def _take_turns(self, kinesis: str) -> None:
        stage, employer = self.stage, self.java.employer
        stage.others = WORKER_ID
        kclpy = {"PYTHONPATH": f"{kclpy_in(employer.folder)}:{HANDLERS}"}
        processor = {"handler_contract": "record_processor"}
        with stage.producing():
            self._has_everything(self._daemon(kinesis, kclpy))
            stage.fleet.split()
            stage.settle("a split, on the daemon", stage.alive())
            stage.alive()[0].stop()
            self._has_everything(employer.sublet("1", "kcl_recorder:RecordProcessor", kclpy, **processor))
            stage.fleet.merge(1)
            stage.settle("a merge, on sublet", stage.alive())
            stage.alive()[0].stop()
            self._has_everything(self._daemon(kinesis, kclpy))
        stage.drained()

    def _has_everything(self, worker: Worker) -> None:
        self.stage.hire(worker)
        self.stage.settle(f"{worker.worker_id} has every lease", [worker])

    def _daemon(self, kinesis: str, kclpy: dict[str, str]) -> Worker:
        employer = self.java.employer
        command = daemon_command(
            employer.aws,
            employer.stream,
            employer.application,
            HANDLERS / "kcl_recorder.py",
            employer.folder,
            workerId=WORKER_ID,
            kinesisEndpoint=kinesis,
            failoverTimeMillis=str(employer.failover_seconds * 1_000),
            shardSyncIntervalMillis="1000",
        )
        return employer.start(Side.MULTILANG, WORKER_ID, command, kclpy)


@contextmanager
def in_http2(aws: EmbeddedAws) -> Iterator[str]:
    """An endpoint of the embedded Kinesis that speaks HTTP/2."""
    port = aws.environment["AWS_ENDPOINT_URL_KINESIS"].rpartition(":")[2]
    front = subprocess.Popen(
        [node(), str(Path(__file__).parents[1] / "http2.cjs"), port], stdout=subprocess.PIPE, text=True
    )
    try:
        assert front.stdout is not None
        yield f"http://{HOST}:{front.stdout.readline().strip()}"
    finally:
        front.kill()
        front.wait()
