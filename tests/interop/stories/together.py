"""A KCL fleet and sublet on one lease table at the same time: kills on both sides, and reshards."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from tests.interop.build import Profile
from tests.interop.workers import SIDES, Java
from tests.mixed_fleet.stage import Stage
from tests.mixed_fleet.workers import Side


@dataclass(frozen=True)
class Together:
    """Both sides must get a share each time: with KCL 2.x, a worker with less than its share steals."""

    stage: Stage
    java: Java
    profile: Profile
    repeats_nothing: Container[str] = ()

    def run(self) -> None:
        stage = self.stage
        with stage.producing():
            stage.hire(self.java.kcl(self.profile, "1"))
            stage.hire(self.java.employer.sublet("1"))
            stage.settle("started together", stage.alive(), each=True)
            stage.fleet.split()
            for side in (SIDES[self.profile], Side.SUBLET):
                self._killed_and_replaced(side)
            stage.fleet.merge(1)
            stage.settle("a merge", stage.alive(), each=True)
        stage.drained()

    def _killed_and_replaced(self, side: Side) -> None:
        victim = self.stage.busiest(side)
        victim.kill()
        employer = self.java.employer
        self.stage.hire(employer.sublet("2") if side is Side.SUBLET else self.java.kcl(self.profile, "2"))
        self.stage.settle(f"SIGKILL of {victim.worker_id}", self.stage.alive(), each=True)
