"""Checks that a planted mistake is noticed, and for the right reason."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from sublet.testing.simulation.run import Result


def assert_noticed(world: Callable[[int], Result], noticed_as: str, worlds: int, name: str) -> None:
    """The first of so many worlds that breaks a promise must break the expected one: `noticed_as`, a pattern."""
    for seed in range(worlds):
        violation = world(seed).violation
        if violation is not None:
            assert re.search(noticed_as, violation), f"seed {seed} broke otherwise: {violation}"
            return
    pytest.fail(f"nothing noticed in {worlds} worlds: {name}")
