"""A stream that is replaced under its workers."""

from __future__ import annotations

import pytest
from sublet.protocol.stream_identity import StreamIdentity
from sublet.testing.simulation.run import play


@pytest.mark.parametrize("seed", range(6))
def test_nothing_of_the_new_stream_is_handled_or_written(seed: int) -> None:
    assert play(seed, replaced=True).violation is None


def test_taking_the_new_stream_for_the_old_one_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StreamIdentity, "is_same_as", lambda ours, other: ours.arn == other.arn)
    found = [play(seed, replaced=True).violation for seed in range(6)]
    assert any(violation and "though the stream is another one" in violation for violation in found), found
