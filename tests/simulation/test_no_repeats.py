"""Finished records are repeated only if the note was lost, and bugs in that are noticed, by fixed seeds."""

from __future__ import annotations

from functools import partial

import pytest
from sublet.engine.lease.row_notes import RowNotes
from sublet.testing.simulation.run import Result
from sublet.testing.simulation.weather import Fault

from tests.simulation.giving_up import give_up
from tests.simulation.side_by_side import give_up_side_by_side

CALM = frozenset(Fault)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "world",
    [
        partial(give_up_side_by_side, 12, without=CALM),
        partial(give_up_side_by_side, 8),
        partial(give_up, 8, without=CALM),
        partial(give_up, 8),
    ],
    ids=["side by side, calm", "side by side", "one by one, calm", "one by one"],
)
def test_records_are_repeated_only_for_a_known_reason(world: partial[Result]) -> None:
    assert world().violation is None


@pytest.mark.timeout(300)
def test_simulation_notices_repeats_when_finished_ahead_is_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were repeated each time the lease was given up."""
    monkeypatch.setattr(RowNotes, "finished_ahead", lambda *_: None)
    violation = give_up_side_by_side(27, without=CALM).violation
    assert violation is not None
    assert violation.endswith("is handed out again, though its owner knew that it is finished")
