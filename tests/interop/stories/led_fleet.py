"""KCL 3.x' leader shares the leases out among Java's workers and sublet's: who joins gets its share, and what is lost is taken.

Nothing is stolen. Whatever moves from the living is handed over, and repeats nothing; after a kill a checkpoint explains it.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from tests.interop.build import Profile
from tests.interop.workers import Java
from tests.mixed_fleet.stage import Stage
from tests.mixed_fleet.verdict import LOST
from tests.mixed_fleet.workers import How, Side


@dataclass(frozen=True)
class LedFleet:
    """Java comes to a fleet of sublet's, which had all; then sublet comes to Java's."""

    stage: Stage
    java: Java
    repeats_nothing: Container[str] = (How.STOPPED, LOST)

    def run(self) -> None:
        stage, employer = self.stage, self.java.employer
        with stage.producing():
            stage.hire(employer.sublet("1"))
            stage.settle("sublet has every lease", stage.alive())
            stage.hire(self.java.kcl(Profile.KCL_3, "1"))
            stage.settle("Java is given its share", stage.alive(), each=True)
            victim = stage.busiest(Side.SUBLET)
            victim.kill()
            stage.settle(f"SIGKILL of {victim.worker_id}", stage.alive())
            stage.hire(employer.sublet("2"))
            stage.settle("sublet is given its share", stage.alive(), each=True)
        stage.drained()
