"""One stream, one lease table, two kinds of workers, and what happens to them. Every step waits for the fleet to
settle.

A step's time is until each shard in play is held by a live worker of the wanted side; for a kill, until every lease
of the killed worker is held by another.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.mixed_fleet.stage import Stage
from tests.mixed_fleet.workers import Employer, Side


@dataclass(frozen=True)
class Story:
    stage: Stage
    employer: Employer

    def run(self) -> None:
        with self.stage.producing():
            self._both_sides_share()
            self._reshards()
            self._kills()
            self._all_to_sublet()
            self._all_back_to_kcl_rs()
        self.stage.drained()

    def _both_sides_share(self) -> None:
        stage = self.stage
        for name in ("1", "2"):
            stage.hire(self.employer.kcl_rs(name))
        stage.settle("two kcl-rs workers start the application", stage.alive(), each=True)
        for name in ("1", "2"):
            stage.hire(self.employer.sublet(name))
        stage.settle("two sublet processes join and take their share", stage.alive(), each=True)

    def _reshards(self) -> None:
        self.stage.fleet.split()
        self.stage.settle("a split while both sides work", self.stage.alive())
        self.stage.fleet.merge()
        self.stage.settle("a merge while both sides work", self.stage.alive())

    def _kills(self) -> None:
        for side in (Side.KCL_RS, Side.SUBLET):
            victim = self.stage.busiest(side)
            victim.kill()
            self.stage.settle(f"SIGKILL of {victim.worker_id}", self.stage.alive())

    def _all_to_sublet(self) -> None:
        stage = self.stage
        stage.hire(self.employer.sublet("3"))
        for worker in stage.alive(Side.KCL_RS):
            worker.stop()
        stage.settle("kcl-rs is stopped: everything to sublet", stage.alive(Side.SUBLET), each=True)
        stage.fleet.split()
        stage.settle("a split, on sublet alone", stage.alive(Side.SUBLET))

    def _all_back_to_kcl_rs(self) -> None:
        stage = self.stage
        for name in ("3", "4"):
            stage.hire(self.employer.kcl_rs(name))
        stage.settle("two kcl-rs workers come back and take their share", stage.alive(), each=True)
        for worker in stage.alive(Side.SUBLET):
            worker.stop()
        stage.settle("sublet is stopped: everything back to kcl-rs", stage.alive(), each=True)
        stage.fleet.merge()
        stage.settle("a merge, on kcl-rs alone", stage.alive())
