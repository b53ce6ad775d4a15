"""Each deliberate bug is noticed, for what it is, within a few worlds."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.exploring import first
from tests.simulation.mutations import MUTATIONS
from tests.simulation.simulation import simulate

WORLDS = 300
"""Far more than any has needed (60): a change of the code draws other worlds from the same seeds."""

NOTICED_AS = {
    "counter reset on acquire": r"acquire of \S+: counter \d+ became 1$",
    "owner-only fence": r"which wrote to it .* ago$|half a row|is left behind: its window has ended, and the row "
    "names it$",
    "checkpoint over any position": r"moved the checkpoint back from|which no handler has finished$",
    "checkpoint over what an operator has moved": r"covers record .*, which no handler has finished$",
    "children created after SHARD_END": r"ended before its child \S+ had a lease$",
    "LATEST not pinned": r"unhandled records$|though the checkpoint covers|which no handler has finished$",
    "a shard's time by a worker's own clock": r"though the checkpoint covers|which no handler has finished$|unhandled "
    "records",
    "heartbeat from a resumed zombie": r"heartbeat of \S+ succeeded, but its owner is \S+: two owners at once$",
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", first(3, MUTATIONS))
def test_a_breakage_is_noticed(name: str) -> None:
    for seed in range(WORLDS):
        violation = simulate(seed, mutation=MUTATIONS[name]).violation
        if violation is not None:
            assert re.search(NOTICED_AS[name], violation), f"seed {seed} broke otherwise: {violation}"
            return
    pytest.fail(f"nothing noticed in {WORLDS} worlds: {name}")


@pytest.mark.parametrize("name", ["counter reset on acquire", "heartbeat from a resumed zombie"])
def test_a_write_without_its_fence_is_noticed_before_it_does_harm(name: str) -> None:
    """Almost at once, and in most worlds: such a write shows on any row."""
    found = [simulate(seed, mutation=replace(MUTATIONS[name], has_rules=True)).violation for seed in range(6)]
    noticed = [violation for violation in found if violation is not None]
    assert len(noticed) >= len(found) // 2
    assert all(re.search(r" of \S+ breaks its rule: ", violation) for violation in noticed), noticed


def test_each_breakage_that_was_asked_for_is_there() -> None:
    assert MUTATIONS.keys() == NOTICED_AS.keys()
