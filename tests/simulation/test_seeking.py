"""Positions moved by `seek` under our fleet and Java's: everything from there is handled, and no owner writes over
it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from sublet.protocol import lease_attributes as attributes
from sublet.protocol.lease import Lease, Position
from sublet.protocol.lease_writes import LeaseWrite, seek

from tests.simulation import seeking
from tests.simulation.seeking import seek_in

SEEDS = range(12)
"""`make simulate WORLDS=seeking` draws new ones."""


def test_seeks_lose_and_overwrite_nothing() -> None:
    broken = {seed: found for seed in SEEDS if (found := seek_in(seed).violation)}
    assert not broken, broken


def plain(lease: Lease, to: Position) -> LeaseWrite:
    """As an editor of the row does it: its owner renews on, and checkpoints over it."""
    write = seek(lease, to)
    return replace(write, adds={}, removes=tuple(name for name in write.removes if name != attributes.LEASE_OWNER))


def test_a_plain_write_of_the_position_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeking, "seek", plain)
    assert any(seek_in(seed).violation for seed in range(40))
