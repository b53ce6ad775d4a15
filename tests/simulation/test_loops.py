"""A loop of the simulated world that raises ends the world and reports the exception."""

from __future__ import annotations

from sublet.handler import Handler
from sublet.testing.simulation.fleet import Wiring
from sublet.testing.simulation.run import play
from sublet.testing.simulation.scheduler import Process
from sublet.testing.simulation.world import World


def test_a_fleet_loop_that_raises_is_a_violation_that_names_the_exception() -> None:
    """It died unnoticed, and the world ended as `not drained`."""

    def broken(_: World, __: Process) -> Handler:
        raise ValueError("no such handler")

    violation = play(0, wiring=Wiring(handler=broken)).violation
    assert violation is not None
    assert "raised ValueError('no such handler') at world.py:" in violation
    assert "test_loops.py:" in violation
