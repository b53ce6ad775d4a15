"""The KCL's MultiLangDaemon and sublet take turns with one kclpy record processor, which cannot tell them apart."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

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
        stage, employer = self.stage, self.java.employer
        stage.others = WORKER_ID
        kclpy = {"PYTHONPATH": f"{kclpy_in(employer.folder)}:{HANDLERS}"}
        processor = {"handler_contract": "record_processor"}
        with stage.producing():
            self._has_everything(self._daemon(kclpy))
            stage.fleet.split()
            stage.settle("a split, on the daemon", stage.alive())
            stage.alive()[0].stop()
            self._has_everything(employer.sublet("1", "kcl_recorder:RecordProcessor", kclpy, **processor))
            stage.fleet.merge(1)
            stage.settle("a merge, on sublet", stage.alive())
            stage.alive()[0].stop()
            self._has_everything(self._daemon(kclpy))
        stage.drained()

    def _has_everything(self, worker: Worker) -> None:
        self.stage.hire(worker)
        self.stage.settle(f"{worker.worker_id} has every lease", [worker])

    def _daemon(self, kclpy: dict[str, str]) -> Worker:
        employer = self.java.employer
        command = daemon_command(
            employer.aws,
            employer.stream,
            employer.application,
            HANDLERS / "kcl_recorder.py",
            employer.folder,
            workerId=WORKER_ID,
            kinesisEndpoint=employer.aws.environment["AWS_ENDPOINT_URL_KINESIS"],
            failoverTimeMillis=str(employer.failover_seconds * 1_000),
            shardSyncIntervalMillis="1000",
        )
        return employer.start(Side.MULTILANG, WORKER_ID, command, kclpy)
