"""Java's KCL reads by SubscribeToShard: through a split and a merge, with a second worker that takes leases from a live
one, and then from a killed one.

A lease's new owner subscribes while the old one's subscription goes on, or has just ended.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from tests.interop.build import Profile
from tests.interop.workers import Java
from tests.mixed_fleet.stage import Stage
from tests.mixed_fleet.workers import How, Worker


@dataclass(frozen=True)
class FanOut:
    stage: Stage
    java: Java
    profile: Profile
    repeats_nothing: Container[str] = (How.STOPPED,)

    def run(self) -> None:
        stage = self.stage
        with stage.producing():
            first = self._hired("1")
            stage.settle("one worker, by fan-out", [first])
            stage.fleet.split()
            stage.settle("a split", [first])
            second = self._hired("2")
            stage.settle("a second worker takes its share", [first, second], each=True)
            first.kill()
            stage.settle("the first is killed", [second])
            stage.fleet.merge(1)
            stage.settle("a merge", [second])
        stage.drained()

    def _hired(self, name: str) -> Worker:
        worker = self.stage.hire(self.java.kcl(self.profile, name, fansOut="true"))
        self.stage.handles(worker)
        return worker
