"""A stream that is replaced under its workers."""

from __future__ import annotations

import pytest
from sublet.protocol.stream_identity import StreamIdentity
from sublet.testing.simulation.run import play


@pytest.mark.parametrize("seed", range(6))
def test_fleet_handles_and_writes_nothing_of_a_recreated_stream(seed: int) -> None:
    assert play(seed, replaced=True).violation is None


def test_taking_the_new_stream_for_the_old_one_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StreamIdentity, "is_same_as", lambda ours, other: ours.arn == other.arn)
    found = [play(seed, replaced=True).violation for seed in range(6)]
    assert any(violation and "though the stream is another one" in violation for violation in found), found
