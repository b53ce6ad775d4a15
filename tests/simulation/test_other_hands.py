"""Finished-ahead notes are void once another worker has written, and bugs in that are noticed, by fixed seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import pytest
from sublet.engine.lease.row_notes import RowNotes
from sublet.protocol import lease_attributes as attributes
from sublet.protocol import lease_row
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.finished_ahead import FinishedAhead, read_ahead_text
from sublet.protocol.lease import AttributeValue, Lease
from sublet.testing.simulation.run import Result
from sublet.testing.simulation.weather import Fault

from tests.simulation.other_hands import give_up_beside_other_hands

calm = partial(give_up_beside_other_hands, without=frozenset(Fault))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("world", [partial(calm, 5), partial(give_up_beside_other_hands, 3)])
def test_rewound_records_are_handled_again(world: Callable[[], Result]) -> None:
    """More of them: `make simulate WORLDS=other-hands`."""
    assert world().violation is None


@pytest.mark.timeout(300)
def test_a_late_checkpoint_below_a_failed_attempt_lets_no_record_fail_for_ever() -> None:
    assert give_up_beside_other_hands(907608143).violation is None


@pytest.mark.timeout(300)
def test_a_session_that_reads_on_after_a_late_checkpoint_may_repeat_what_is_beyond_it() -> None:
    assert give_up_beside_other_hands(907609027).violation is None


@pytest.mark.timeout(300)
def test_operators_do_not_move_a_row_there_and_back_before_its_owner_can_notice() -> None:
    assert give_up_beside_other_hands(40945921).violation is None


def of_any_position(item: Mapping[str, AttributeValue], *_at: object) -> tuple[FinishedAhead | None, int | None]:
    """Reads the note as of the position that it names itself."""
    said = str(item.get(attributes.AHEAD, {}).get("S", ""))
    number, _, sub = said.partition("@")[2].partition("/")[0].partition("+")[0].partition(":")
    found = read_ahead_text(said, Checkpoint.parse(number, int(sub or 0)), None) if said else None
    return found or (None, None)


class Planted(NamedTuple):
    """`seeds`: of fault-free worlds, one of which shows it."""

    seeds: tuple[int, ...]
    where: Any
    name: str
    by: object


PLANTED = {
    "believed whatever the checkpoint": Planted((12, 23, 3), lease_row, "_ahead", of_any_position),
    "believed whatever the counter": Planted(
        (5, 0), Lease, "finished_ahead", property(lambda lease: lease.noted_ahead)
    ),
    "passed on after a move": Planted((3, 202), RowNotes, "finished_ahead", lambda notes, _: notes.ahead.finished()),
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", PLANTED)
def test_a_note_that_is_believed_wrongly_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = PLANTED[name]
    monkeypatch.setattr(planted.where, planted.name, planted.by)
    violation = next((found for seed in planted.seeds if (found := calm(seed).violation)), None)
    assert violation is not None
    assert violation.endswith("which no handler has finished")
