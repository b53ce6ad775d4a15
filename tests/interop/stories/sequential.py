"""A stream that moves from a KCL application to sublet and back, never both at the same time.

Each side is killed once and stopped once: a checkpoint explains what a kill repeats; a stop repeats nothing. Uses
plain records, sublet's aggregates and the KPL's, and a reshard in each part and in each gap.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from tests.interop.build import Profile
from tests.interop.workers import Java
from tests.mixed_fleet.stage import Stage
from tests.mixed_fleet.workers import How, Worker

CHECKPOINT_MILLIS = 3_000
"""So that killing Java repeats something."""


@dataclass(frozen=True)
class Sequential:
    stage: Stage
    java: Java
    profile: Profile
    repeats_nothing: Container[str] = (How.STOPPED,)

    def run(self) -> None:
        stage = self.stage
        with stage.producing():
            killed = self._kcl("1")
            stage.fleet.split()
            self._kpl("during-java-")
            self._works(killed)
            killed.kill()
            stage.fleet.merge()
            killed = self._sublet("1")
            stage.fleet.split(-1)
            self._kpl("during-sublet-")
            self._works(killed)
            killed.kill()
            stopped = self._kcl("2")
            self._works(stopped)
            stopped.stop()
            stage.fleet.merge(1)
            stopped = self._sublet("2")
            self._works(stopped)
            stopped.stop()
            stage.fleet.split()
            self._works(self._kcl("3"))
        stage.drained()

    def _kcl(self, name: str) -> Worker:
        return self.stage.at_work(self.java.kcl(self.profile, name, checkpointMillis=CHECKPOINT_MILLIS))

    def _sublet(self, name: str) -> Worker:
        return self.stage.at_work(self.java.employer.sublet(name))

    def _works(self, worker: Worker) -> None:
        self.stage.settle(f"{worker.worker_id} has every lease", [worker])

    def _kpl(self, prefix: str) -> None:
        self.stage.unordered += self.java.kpl(prefix, keys=20, count=600, a_second=200)
