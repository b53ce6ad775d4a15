"""A KCL application whose fleet is stopped now and then, while windows of a deployed sublet in `catch_up` mode
continue its work."""

from __future__ import annotations

import time
from collections.abc import Container
from dataclasses import dataclass

from tests.e2e.fleet import Fleet
from tests.interop.build import Profile
from tests.interop.workers import Java
from tests.mixed_fleet.stage import KEYS, PATIENCE, Stage
from tests.mixed_fleet.workers import How


@dataclass(frozen=True)
class CatchUp:
    """`fleet.tick` prompts the deployment's lease manager instead of a schedule. The two never run at the same time."""

    stage: Stage
    java: Java
    repeats_nothing: Container[str] = (How.STOPPED,)

    def run(self) -> None:
        self.stage.others = f"{self.stage.fleet.outputs['LeaseTable']}-lambda-0"
        for name, profile in (("1", Profile.KCL_2), ("2", Profile.KCL_2)):
            worker = self.stage.hire(self.java.kcl(profile, name))
            with self.stage.producing():
                self.stage.handles(worker)
                self.stage.settle(f"{worker.worker_id} has every lease", [worker])
                self.stage.fleet.split()
            self.stage.fleet.recorder.wait_for(self.stage.fleet.put, PATIENCE)
            worker.stop()
            self._windows(self.stage.fleet)

    def _windows(self, fleet: Fleet) -> None:
        started = time.monotonic()
        for turn in range(4):
            fleet.produce(KEYS, aggregated=turn % 2 == 0)
            if turn == 1:
                fleet.merge()
        while self._is_behind(fleet):
            fleet.tick()
        fleet.wait_until_free()
        self.stage.note("windows on Lambda have caught up", started)

    def _is_behind(self, fleet: Fleet) -> bool:
        return bool(set(fleet.put) - {delivery.text for delivery in fleet.recorder.deliveries()})
