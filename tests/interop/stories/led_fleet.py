"""KCL 3.x' leader distributes the leases among Java's workers and sublet's: newcomers get their share, and lost
leases are taken.

Nothing is stolen. Leases of live workers are handed over, without repeats; after a kill, a checkpoint explains each
repeat.
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
    """Java joins a fleet of sublet's, which had all leases; then sublet joins Java's."""

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
