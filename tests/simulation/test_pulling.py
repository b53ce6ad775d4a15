"""Some worlds of programs that pull; `make simulate PULL=2000` runs new ones."""

from __future__ import annotations

import pytest
from sublet.pull.buffer import Buffer
from sublet.pull.consume import Consuming

from tests.exploring import first
from tests.simulation.pull_worlds import broken_promise

WORLDS = 60
TORN = (*range(38, 60), *range(20, 38))
"""The first of them nearly always shows it. Which line an interrupt hits also depends on what the process has run
before.
"""


@pytest.mark.parametrize("seed", first(20, range(WORLDS)))
def test_every_record_is_acknowledged_or_comes_again(seed: int) -> None:
    assert broken_promise(seed) is None


@pytest.mark.slow
def test_simulation_notices_a_lane_that_calls_with_void_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Consuming, "_call_if_out", Consuming._call)
    noticed = (broken_promise(seed) for seed in range(9, WORLDS))
    assert any(one is not None and "though one before it was put back" in one for one in noticed)


def test_damage_by_an_interrupt_that_is_not_repaired_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between taking a record and noting it, Ctrl-C dropped it for good, and its shard stood still."""
    monkeypatch.setattr(Buffer, "_repair", lambda _: None)
    noticed = filter(None, map(broken_promise, TORN))
    assert any("checkpoints stand still" in broken for broken in noticed)
